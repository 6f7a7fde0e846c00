"""Private residual rounds: questions about private rows, and a learner that only sees noisy answers to them.

The learner (:mod:`.learner`) is a coroutine: it yields a question with the budget for it and receives the noisy answer.
It holds no reference to any row, so all its decisions follow from public facts and from what was released already.

A round may therefore ask anything that depends on what the learner knows. The proof consists of five short theorems on
questions, together with adaptive composition, so a change to the learner needs no new proof; only a new kind of
question does. To add one, write a :class:`.questions.Question` with the size and the sensitivity of its answer and the
way to sum it, and a theorem in docs/privacy/rounds.md.
"""
