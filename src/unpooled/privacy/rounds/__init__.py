"""Private residual rounds: questions that are asked of private rows, and a learner that only ever sees noised answers.

The learner (:mod:`.learner`) is a coroutine: it yields a question with the budget for it and is sent the noised answer.
It holds no reference to any row, so everything it decides is public knowledge or made from what was released already.
"""
