module github.com/khop-gnn/khop/tools/mutate

go 1.25.0

require golang.org/x/tools v0.36.0
