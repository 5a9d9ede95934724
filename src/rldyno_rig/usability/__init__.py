"""What `rldyno usability` asks of a framework: a first update, saving and loading, exporting a network.

One file per framework, named after its backend, with the same names in each:

    SAVED_BY                      the framework's own way of saving arrays, in words
    save(arrays, path)            name → the framework's array, to one or more files that begin with `path`
    load(path, like)              the inverse, as name → NumPy array; `like` has the names and shapes
    EXPORTS                       name of a path → function(learner, obs, directory)

An export writes the learner's network to `directory`, reads it back without the code that made it, and
returns what it computes for `obs`, a tuple of one array per head; or None once `directory/model.onnx` is
there, which another process runs.
"""
