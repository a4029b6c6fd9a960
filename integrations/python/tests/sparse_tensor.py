"""What PyG's tests of its loaders use of torch_sparse.SparseTensor, in plain torch; without torch_sparse's samplers."""
import torch


class SparseStorage:
    def __init__(self, row, col, value):
        self._row, self._col, self._value = row, col, value

    def row(self):
        return self._row

    def col(self):
        return self._col

    def value(self):
        return self._value


class SparseTensor:
    """Entries by row and column."""

    def __init__(
        self, row=None, rowptr=None, col=None, value=None, sparse_sizes=None, is_sorted=False, trust_data=False,
    ):
        if row is None:
            row = torch.repeat_interleave(torch.arange(len(rowptr) - 1), rowptr.diff())
        self._sizes = sparse_sizes or (int(row.max()) + 1, int(col.max()) + 1)
        order = torch.sort(row * max(self._sizes[1], 1) + col, stable=True)[1]
        self.storage = SparseStorage(row[order], col[order], None if value is None else value[order])

    def coo(self):
        return self.storage._row, self.storage._col, self.storage._value

    def t(self):
        row, col, value = self.coo()
        return SparseTensor(row=col, col=row, value=value, sparse_sizes=self._sizes[::-1])

    def nnz(self):
        return len(self.storage._row)

    def sparse_size(self, dim):
        return self._sizes[dim]

    def size(self, dim):
        return self._sizes[dim]

    def cpu(self):
        return self

    def __getitem__(self, index):
        """The entries of some rows and columns, each of which is there once."""
        def places(nodes, size):
            at = torch.full((size,), -1)
            at[nodes] = torch.arange(len(nodes))
            return at
        row, col, value = self.coo()
        row, col = places(index[0], self._sizes[0])[row], places(index[1], self._sizes[1])[col]
        kept = (row >= 0) & (col >= 0)
        return SparseTensor(row=row[kept], col=col[kept], value=value[kept], sparse_sizes=tuple(map(len, index)))
