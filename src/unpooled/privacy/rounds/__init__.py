"""Private residual rounds: questions that are asked of private rows, and a learner that only ever sees noised answers.

The learner (:mod:`.learner`) is a coroutine: it yields a question with the budget for it and is sent the noised answer.
It holds no reference to any row, so everything it decides is public knowledge or made from what was released already.

So a round may ask anything that depends on what the learner knows, and the proof is five short theorems on questions
together with adaptive composition. A new idea in the learner needs no new proof. Only a new kind of question does. It
is a :class:`.questions.Question` that says how large its answer is, how far one record moves it and how it is summed,
and a theorem in docs/privacy/rounds.md.
"""
