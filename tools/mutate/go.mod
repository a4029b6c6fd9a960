module github.com/khop-gnn/khop/tools/mutate

go 1.25.0
