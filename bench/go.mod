module github.com/khop-gnn/khop/bench

go 1.25.0

require (
	github.com/khop-gnn/khop v0.0.0
	github.com/zeebo/xxh3 v1.0.2
	golang.org/x/sync v0.16.0
	golang.org/x/sys v0.35.0
)

require (
	github.com/NVIDIA/go-nvml v0.12.4-1 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/flatbuffers v25.2.10+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.8 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/text v0.28.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

replace github.com/khop-gnn/khop => ..
