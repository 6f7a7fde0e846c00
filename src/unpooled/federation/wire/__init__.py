"""The connection between a server and its sites: messages, transports, Flower, certificates and processes."""
