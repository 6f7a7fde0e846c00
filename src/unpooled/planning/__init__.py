"""Plans of a fit before it runs: memory and time of every route on this machine, and the choice among them.

Memory is counted in arrays, which the code itself decides; time is counted in operations, divided by rates that are
measured in a fraction of a second. No row is read for this.
"""
