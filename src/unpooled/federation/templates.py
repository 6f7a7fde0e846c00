"""The texts of a new study folder: the Flower app, the study, the sites, and how it is run."""

from __future__ import annotations

APP = """\
[project]
name = "{package}"
version = "1.0.0"
description = "A study of unpooled: sums travel, rows stay"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "consortium"

[tool.flwr.app.components]
serverapp = "{module}.server_app:app"
clientapp = "{module}.client_app:app"

[tool.flwr.app.config]
study = {study}
relay = ""
"""

SERVER_APP = '''\
"""The server's side of the study: Flower runs it where the SuperLink is."""

from unpooled.federation.flower import server_app as app

__all__ = ["app"]
'''

CLIENT_APP = '''\
"""A site's side: Flower runs it at every SuperNode that is not started by `unpooled federation site`."""

from unpooled.federation.flower import client_app as app

__all__ = ["app"]
'''

STUDY = """\
# What is asked of the sites. They are told all of it, and each decides for itself.

name = {name}
basis = "study.basis"    # the public basis, beside this file: unpooled basis public.csv -o {folder}/study.basis
targets = {targets}
members = {members}

# A sum over fewer sites is not used. Secure sums need 3 or more.
quorum = {quorum}
# Seconds that a site has for an answer.
timeout = 300
# Seconds that the study waits for sites that are not connected yet, or whose people have not said yes.
patience = 600

# "second-order": ridge regression on the pooled rows. "less": first-order sums, one round. "rounds": first-order sums
# of residuals, several times. "average": each site's own fit, averaged.
kind = {kind}
rounds = {rounds}
# "auto" chooses λ from the sums; a number sets it. With kind = "average": "rule13".
lam = {lam}
# true: the server sees nothing but sums over all sites.
secure = true

# Noise for differential privacy, for the whole study; every site then needs a ledger.
# [privacy]
# epsilon = 1.0
# delta = 1e-6
# label_bound = 10.0
"""

SITE = """\
# This file belongs to the site. Nothing in it comes from a server, and nothing of it is sent.

name = {name}
data = "rows.parquet"    # a .parquet or .csv file, or a folder of .parquet files
key = "site.key"         # its identity: keep it here, and give the others what `unpooled federation key` prints

# What each of the other sites told you on a way you trust: in person, by telephone, on paper.
[peers]
{peers}
"""

NETWORK = """\
# How this site gets to the server.
superlink = {superlink}
certificate = "ca.crt"    # of the authority that signed the server's certificate
key = "node.key"          # shows the server who this node is; the server has node.key.pub
port = {port}              # a free port of this machine; Flower's own processes talk on it, here only
"""

FLOWER = """\
[superlink]
default = "study"

[superlink.study]
address = {superlink}
root-certificates = {certificate}
"""

ENVIRONMENT = """\
# . {folder}/env.sh    before Flower's own commands: its settings for this study, no telemetry, no look for updates.
export FLWR_HOME={home}
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.2
"""

HOWTO = """\
# How to run this study

**The certificates in `network/` are for a TEST on one machine: they say so, and they end after {days} days. For real
data use certificates of your own, and make every key at the site it belongs to.**

`study.toml` says what is asked; put the basis beside it as `study.basis`. `sites/` has a folder for each site, which in
earnest belongs on that site's own machine. Put each site's rows there as `rows.parquet` (or change `site.toml`), and
read its `unpooled-policy.toml`: it says what may leave.

## The server

```sh
. {folder}/env.sh
flower-superlink --ssl-ca-certfile {folder}/network/ca.crt --ssl-certfile {folder}/network/server.crt \\
  --ssl-keyfile {folder}/network/server.key --host {host} --port {port} --database {folder}/flower/state.db \\
  --enable-supernode-auth --disable-runtime-dependency-installation
```

Whoever can reach that port can register nodes and submit runs: let only the sites and yourself through the firewall.
Register each site's node once, under its name, with the public key that it sent:

```sh
. {folder}/env.sh
{register}
```

## The sites

```sh
unpooled federation site {folder}/sites/{first}
```

It starts Flower's SuperNode and answers with the code that is installed at the site. Flower's own command works as
well, but then whatever code the server sends runs at the site:

```sh
flower-supernode --superlink {superlink} --root-certificates {folder}/sites/{first}/ca.crt \\
  --auth-supernode-private-key {folder}/sites/{first}/node.key --port {node_port} \\
  --node-config 'site="{folder}/sites/{first}"'
```

Where a policy says `approve = "ask"`, `unpooled federation approve {folder}/sites/{first}` shows what is asked, and a
person says yes or no.

## The study

```sh
. {folder}/env.sh
flwr run {folder}/app study --stream
unpooled federation status {folder}
unpooled predict {folder}/results/study.model new.csv -o predictions.csv
```

`flwr run` ends with exit code 0 whatever happens; `unpooled federation status` does not. A study that was interrupted
goes on after its last complete exchange when it is run again; remove `{folder}/results` to begin anew.
"""
