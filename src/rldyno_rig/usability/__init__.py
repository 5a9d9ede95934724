"""What `rldyno usability` asks of a framework: a first update, saving, exporting, loading data, TensorBoard.

One file per framework, named after its backend, with the same names in each:

    SAVED_BY                      the framework's own way of saving arrays, in words
    save(arrays, path)            name → the framework's array, to one or more files that begin with `path`
    load(path, like)              the inverse, as name → NumPy array; `like` has the names and shapes
    BATCHES                       name of an input pipeline → function(arrays, rows, epochs)
    board(directory)              a writer of TensorBoard's event files: `boards.Board`
    EXPORTS                       name of a path → function(learner, obs, directory)

The functions of BATCHES yield shuffled minibatches, each a sequence of the framework's arrays: all items of
the NumPy `arrays`, as many times as there are epochs. Their lines are counted, and those of `board`, so they
are what a user would write.

An export writes the learner's network to `directory`, reads it back without the code that made it, and
returns what it computes for `obs`, a tuple of one array per head; or None once `directory/model.onnx` is
there, which another process runs.
"""
