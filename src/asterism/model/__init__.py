"""The model and its updates in NumPy, one concept a file, to be read beside the paper.

state       what is known of topics and what a batch of documents says about them
generative  the process that makes a corpus
tokens      which topic a token is drawn from, q(z)
document    a document's embedding q(a) and topic weights q(η)
topics      topic embeddings q(u)
words       the words of topics q(φ)
svi         Algorithm 2 of the paper: how a batch moves the topics
elbo        the bound, term by term
random      random numbers that depend on what they are for, not on who draws them
"""
