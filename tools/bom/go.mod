module github.com/khop-gnn/khop/tools/bom

go 1.24.0

require (
	github.com/CycloneDX/cyclonedx-go v0.9.2
	github.com/google/licensecheck v0.3.1
	github.com/google/uuid v1.6.0
)
