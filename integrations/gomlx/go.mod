module github.com/khop-gnn/khop/integrations/gomlx

go 1.25.0

require (
	github.com/gomlx/gomlx v0.26.0
	github.com/khop-gnn/khop v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/NVIDIA/go-nvml v0.12.4-1 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/google/flatbuffers v25.2.10+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.18.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.5 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/exp v0.0.0-20250819193227-8b4c13bb791b // indirect
	golang.org/x/sync v0.16.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
)

replace github.com/khop-gnn/khop => ../..
