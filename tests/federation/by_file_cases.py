"""Studies by file in a temporary folder: sites that have pinned one another, their questions and their answers."""

import numpy as np

from unpooled.federation.by_file.questions import Question
from unpooled.federation.by_file.site import FileSite
from unpooled.federation.secure.keys import Identity
from unpooled.gate import Log

NAMES = ("east", "north", "south", "west")


class FileStudy:
    """Sites in folders below ``folder``; ``numbers`` are their whole numbers, and ``computed`` who computed them."""

    def __init__(self, folder, names=NAMES, size=8, seed=0, stored=True, **rules) -> None:
        self.folder, self.names, self.size = folder, tuple(names), size
        folder.mkdir(parents=True, exist_ok=True)
        self.identities = {name: Identity.create(folder / f"{name}.pem") for name in (*names, "coordinator")}
        self.pinned = {name: self.identities[name].public for name in names}
        self.stored, self.rules = stored, rules
        self.sites = {name: self.site(name) for name in names}
        rng = np.random.default_rng(seed)
        self.numbers = {name: rng.integers(-1000, 1000, size=size) for name in names}
        self.computed: list[str] = []
        self.keys = {name: self.sites[name].enrol() for name in names}

    def site(self, name):
        """The site as it stands after a restart: only its files remain."""
        place = self.folder / name if self.stored else None
        if place is not None:
            place.mkdir(exist_ok=True)
        log = None if place is None else Log(place / "unpooled-log.jsonl")
        keys = None if place is None else place / "keys"
        return FileSite(name, self.identities[name], self.pinned, keys, log, **self.rules)

    def question(self, names=None, **choices):
        facts = {"study": "heart", "number": 1, "before": "", "colluding": 1, "size": self.size}
        facts |= {"price": 0.1, "study_price": 0.5, "content": {"sums": "n, Σy"}, "arrays": {"a": np.arange(3.0)}}
        members = tuple(self.keys[name] for name in names or self.names)
        return Question(**{**facts, "members": members, **choices}).sign(self.identities["coordinator"])

    def numbers_of(self, name):
        def compute(question):
            self.computed.append(name)
            return self.numbers[name]

        return compute

    def answer(self, name, question, place="answers"):
        """Let a site answer, and return the path of its file."""
        content = self.sites[name].answer(question, self.numbers_of(name))
        path = self.folder / place / f"{name}.answer"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def answers(self, question, names=None, place="answers"):
        return [self.answer(name, question, place) for name in names or question.names]

    def files(self, name):
        """The names of a site's files with their contents."""
        place = self.folder / name
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
