"""Plans of a fit before it runs: memory and time of every route on this machine, and the choice among them.

Memory follows from the arrays that the code allocates. Time follows from the number of operations, divided by rates
that are measured in a fraction of a second. No row is read.
"""
