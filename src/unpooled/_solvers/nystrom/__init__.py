"""Ridge regression in the span of M kernel functions, for very many rows: one pass of products, or a few.

With points z_1, …, z_M and r(x) = (K(x, z_1), …, K(x, z_M)) the model is f = cᵀr + b, where c minimises (1/W) Σ w_i
(y_i - cᵀr(x_i) - b)² + λ cᵀ(𝕂_zz + εI)c, W = Σ w_i. With 𝕂_zz + εI = LLᵀ, φ = L⁻¹r and c = L⁻ᵀa this is (C + λI) a = d,
C = (1/W) Σ w φφᵀ, d = (1/W) Σ w yφ: regression on the pooled rows in the span of a basis, which second-order summaries
give as well. Here sums are taken over r and not over φ, which saves two thirds of the operations, and nothing larger
than a block of rows is ever formed.
"""
