# For developers. "make" lists the targets; users need no more than go and ./test.sh.
.DEFAULT_GOAL := help
SHELL := bash

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.7.0
FUZZTIME ?= 10m
BENCHTIME ?= 1s
PKG ?= ./sampling
N ?= 100
SEED ?= 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## run everything, as continuous integration does
	./test.sh

.PHONY: nightly
nightly: ## run everything, and what a night has time for: static analysis, races of samplers, training and device code, more cases, the committed PTX, the GPU bundle, builds that repeat
	KHOP_TEST_NIGHT=1 ./test.sh

.PHONY: quick
quick: ## run the Go tests once, without the race detector
	go test ./...

.PHONY: race
race: ## run the Go tests with the race detector
	go test -race ./...

.PHONY: cover
cover: ## show how much of each package the tests run
	go test -coverprofile=/tmp/khop-cover.out ./... && go tool cover -func=/tmp/khop-cover.out | tail -n 1

.PHONY: lint
lint: ## gofmt, vet, staticcheck and golangci-lint, at pinned versions
	@files=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); [ -z "$$files" ] || { echo "not gofmt-ed: $$files"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	go run $(GOLANGCI_LINT) run ./...

.PHONY: vuln
vuln: ## look for known vulnerabilities that the code reaches
	go run $(GOVULNCHECK) ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10m) on one core
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -h --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | sed 's/func //'); do \
			echo "== $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x -parallel 1 $$dir; \
		done; \
	done

.PHONY: fuzz-keep
fuzz-keep: ## keep in testdata/fuzz what fuzzing has found that reaches lines no other input does; plain go test runs it
	python3 tools/fuzz/keep.py

.PHONY: bench
bench: ## run the Go benchmarks, each for BENCHTIME (1s)
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: bench-peers
bench-peers: ## measure beside other loaders, on the same graph and batches: docs/results/cpu.md and charts
	bench/peers/setup.sh && python3 bench/peers/run.py

.PHONY: bench-ops
bench-ops: ## sparse operations beside torch, scipy and C (needs KHOP_TESTDATA, and the environments of bench-peers)
	python3 bench/ops/run.py

.PHONY: bench-disk
bench-disk: ## features larger than memory: khop, mapped files and numpy.memmap in a control group (root; 7 GB of disk; fio; PYTHON= has NumPy)
	$(or $(PYTHON),python3) bench/disk/run.py --record $(ARGS)

.PHONY: bench-embed
bench-embed: ## rows for every node, features larger than memory: khop embed and numpy.memmap in a control group (root; 6 GB of disk; PYTHON= has NumPy)
	$(or $(PYTHON),python3) bench/embed/run.py $(ARGS)

.PHONY: bench-embed-plans
bench-embed-plans: ## what khop embed says that it will take beside what it takes, in 20 drawn settings (root; 4 GB of disk)
	$(or $(PYTHON),python3) bench/embed/plans.py $(ARGS)

.PHONY: bench-machines
bench-machines: ## DDP on two hosts that are network namespaces (root, /dev/net/tun; PYTHON= has torch and xxhash), of ARGS="--dataset GRAPH.khop"
	go build -C bench -o ../.bench/bin/ ./machines/wire
	CGO_ENABLED=0 go build -o .bench/bin/khop ./cmd/khop
	KHOP_BIN=$(CURDIR)/.bench/bin/khop PYTHONPATH=integrations/python/src $(or $(PYTHON),python3) bench/machines/run.py --wire .bench/bin/wire $(ARGS)

.PHONY: bench-convert
bench-convert: ## conversion of a billion int64 pairs beside what the disk does, in DIR= (26 GB of disk); ARGS: .bench/bin/convert -h
	go build -C bench -o ../.bench/bin/ ./convert
	.bench/bin/convert -dir $(DIR) $(or $(ARGS),-edges 1000000000 -memory 2GiB)

.PHONY: bench-features
bench-features: ## memory of converting GB= (100) gigabytes of features, in DIR= (4 GB of disk); needs root, btrfs-progs, strace
	go build -o dist/khop ./cmd/khop && bench/convert/features.sh $(or $(GB),100) $(DIR) dist/khop

.PHONY: bench-feed
bench-feed: ## measure the feed; PYTHON= and TORCH= name interpreters with NumPy and with torch
	go build -C bench -o ../.bench/bin/ ./feed
	.bench/bin/feed -json .bench/feed.json $(if $(PYTHON),-python $(PYTHON)) $(if $(TORCH),-torch $(TORCH))

.PHONY: docs-site
docs-site: ## build the pages as a site that needs no server into dist/site, and fail where a link leads nowhere
	test -x dist/.venv-docs/bin/mkdocs || (python3 -m venv dist/.venv-docs && dist/.venv-docs/bin/pip install --quiet mkdocs==1.6.1 mkdocs-material==9.6.14)
	dist/.venv-docs/bin/mkdocs build --strict

.PHONY: docs-site-check
docs-site-check: docs-site dist/axe/package/axe.min.js ## look at the site in Chromium: 400 and 1,400 pixels, contrast and links by axe (from npm), search
	KHOP_AXE=dist/axe/package/axe.min.js python3 tools/site_check.py

dist/axe/package/axe.min.js:
	mkdir -p dist/axe && cd dist/axe && npm pack --silent axe-core@4.14.1 >/dev/null && tar -xmzf axe-core-4.14.1.tgz

.PHONY: bench-pyg
bench-pyg: ## khop.pyg.NeighborLoader beside PyG's, and what it trains: a section of docs/results/cpu.md (PYTHON= one with torch, PyG and torch-sparse)
	CGO_ENABLED=0 go build -o dist/khop ./cmd/khop
	KHOP_BIN=$(CURDIR)/dist/khop PYTHONPATH=integrations/python/src:$(PYTHONPATH) $(or $(PYTHON),python3) bench/peers/pyg_names.py page $(KHOP_TESTDATA) --json .bench/pyg.json $(ARGS)

.PHONY: bench-inside
bench-inside: ## measure batches from a server and within the process, in turn (PYTHON= one with NumPy)
	$(or $(PYTHON),python3) bench/feed/inside.py --json .bench/inside.json

.PHONY: pip-check
pip-check: ## what lies in dist/ as pip gets it: tags by auditwheel, metadata, and installing with Python 3.9 to 3.13
	tools/pip-check.sh

.PHONY: arm64-check
arm64-check: ## run the wheel for aarch64 by qemu-user, and compare its batches with this machine's
	tools/arm64-check.sh

.PHONY: sdist
sdist: ## the source distribution of the Python package; the program is built of it where it is installed
	$(if $(PYTHON),PYTHON=$(PYTHON)) tools/sdist.sh

.PHONY: wheel
wheel: ## build the Python package into dist/, for this machine; WHEELS="linux/amd64 linux/arm64" for others, PYTHON= what builds it
	$(if $(PYTHON),PYTHON=$(PYTHON)) tools/wheel.sh

.PHONY: library
library: ## build dist/libkhop.so, khop as a shared library for cmd/libkhop/khop.h (PYTHON= one that has ziglang, or CC=)
	$(if $(PYTHON),PYTHON=$(PYTHON)) tools/libkhop.sh dist/libkhop.so

.PHONY: library-cuda
library-cuda: ## the same in dist/libkhop-cuda.so, which gathers rows of unified tensors on a GPU where there is one
	@mkdir -p dist
	@set -e; exports=$$(tools/cuda-env.sh); eval "$$exports"; TAGS=cuda CC=$${CC:-gcc} tools/libkhop.sh dist/libkhop-cuda.so

.PHONY: test-python
test-python: ## run the tests of the Python package
	tools/test-python.sh

.PHONY: kill-test
kill-test: ## kill servers and consumers of the feed a thousand times
	KHOP_SEED=new KHOP_KILLS=1000 go test -run 'Kill' -timeout 60m -v ./integrations/shm/server

.PHONY: mutate
mutate: ## plant N bugs in PKG, by SEED, and list those that its own tests miss (ARGS: more options of tools/mutate)
	go build -C tools/mutate -o ../../dist/mutate .
	dist/mutate -n $(N) -seed $(SEED) -equivalent tests/equivalent-mutants.txt $(ARGS) $(PKG)

.PHONY: device-test
device-test: cudasim-ptx ## compare 2,000 drawn ways to load on the simulated device with the CPU, from .cu files and from PTX (CASES=500 SEED=3: 500 ways, drawn by seed 3)
	@set -e; eval "$$(tools/cuda-env.sh)"; for library in libcudasim libcudasim-ptx; do \
		KHOP_CUDA_DRIVER=$$PWD/dist/$$library.so go test -tags cuda -count 1 -timeout 60m -v \
			-run TestDeviceMakesTheSameBatchesUnderAnyOptions ./loader \
			-metamorphic.cases=$(or $(CASES),2000) -metamorphic.seed=$(or $(SEED),0); \
	done

.PHONY: fault-test
fault-test: ## fail system calls, lose power, break disks and kill writers under khop (SHARE=3: one fault in 3; docs/results/faults.md)
	KHOP_FAULTS=$(or $(SHARE),1) go test -count 1 -timeout 180m -v ./tests/faults
	KHOP_SEED=new KHOP_KILLS=1000 go test -count 1 -run 'KilledAtAnyMoment' -timeout 60m -v ./formats
	KHOP_KILLS=100 go test -count 1 -run 'AKilledConversion' -timeout 60m -v ./formats/convert
	KHOP_KILLS=200 go test -count 1 -run 'FilesThatMayNotGrow|AFullFileSystem' -timeout 60m -v ./cmd/khop
	KHOP_SEED=new KHOP_DRAWS=500 go test -count 1 -run TestDrawnShares -timeout 60m -v ./formats/convert

.PHONY: fault-memory
fault-test: fault-memory
fault-memory: ## draw 200 commands under limits of memory, and 100 in control groups; large sources of every kind
	KHOP_DRAWS=200 go test -count 1 -run TestDrawnCommands -timeout 60m -v ./cmd/khop
	KHOP_DRAWS=100 go test -count 1 -run TestDrawnControlGroups -timeout 60m -v ./cmd/khop
	KHOP_READER_EDGES=16000000 .venv/bin/python -m pytest -s tests/test_memory.py

.PHONY: soak
soak: ## feed on servers for SOAK (60m) while datasets are replaced beside them: the same batches, no more memory
	KHOP_SOAK=$(or $(SOAK),60m) go test -count 1 -timeout 0 -v -run TestALongRun ./cmd/khop

.PHONY: golden
golden: ## make the golden digests again with the independent program
	.venv/bin/python tests/make_golden.py

.PHONY: cross
cross: ## build and vet for the other systems
	@set -e; for target in linux/arm64 darwin/arm64 darwin/amd64 windows/amd64 windows/arm64; do \
		echo $$target; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go build ./...; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go vet ./...; \
	done

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not what go mod tidy makes
	go mod tidy -diff

.PHONY: asm
asm: ## write the assembly for processors and its declarations
	cd tools/asm && go run .

.PHONY: asm-check
asm-check: ## fail if committed assembly is not what tools/asm gives
	cd tools/asm && go test -count 1 .

.PHONY: options
options: ## write what Python (integrations/python/src/khop/_config/option_table.py) and tables of docs say of options, of what khop says
	CGO_ENABLED=0 go run ./cmd/khop options --json | python3 tools/options/options.py

.PHONY: options-check
options-check: ## fail if that is not current
	CGO_ENABLED=0 go run ./cmd/khop options --json | python3 tools/options/options.py --check

.PHONY: release
release: ## build all that a release of VERSION has into dist/release; KEY= signs its checksums (PYTHON= has tools/release/requirements.txt)
	@[ -n "$(PYTHON)" ] || test -x dist/.venv-release/bin/python || (python3 -m venv dist/.venv-release && \
		dist/.venv-release/bin/pip install --quiet -r tools/release/requirements.txt)
	go run -C tools/release . build -root "$(CURDIR)" -python "$(or $(PYTHON),$(CURDIR)/dist/.venv-release/bin/python)" \
		$(if $(ONLY),-only $(ONLY)) $(VERSION)
	$(if $(KEY),go run -C tools/release . sign "$$(realpath "$(KEY)")" "$(CURDIR)/dist/release")

.PHONY: release-tagged
release-tagged: ## what a forge runs for TAG=v1.2.3: the release, signed by the key whose text is in MINISIGN_KEY
	@[ -n "$$MINISIGN_KEY" ] || { echo "MINISIGN_KEY has no key to sign with"; exit 1; }
	$(MAKE) release VERSION=$(TAG:v%=%)
	@(umask 077 && mkdir -p dist && printf '%s\n' "$$MINISIGN_KEY" >dist/.minisign-key)
	go run -C tools/release . sign "$(CURDIR)/dist/.minisign-key" "$(CURDIR)/dist/release"; s=$$?; rm -f dist/.minisign-key; exit $$s

.PHONY: release-publish
release-publish: ## put dist/release on the forge as TAG (needs gh), and what PyPI gets into dist/pypi
	mkdir -p dist/pypi && cp dist/release/*.whl dist/release/khop-$(TAG:v%=%).tar.gz dist/pypi
	gh release create $(TAG) --verify-tag --title "khop $(TAG:v%=%)" --notes-file CHANGELOG.md dist/release/*

.PHONY: api-report
api-report: ## what changes for who calls Go's or Python's names, since the last release or BASE= (apidiff, griffe)
	tools/api-report.sh $(BASE)

.PHONY: release-verify
release-verify: ## fail where a file of dist/release is not as the key PUB= has signed it
	go run -C tools/release . verify "$$(realpath "$(PUB)")" "$(CURDIR)/dist/release"

.PHONY: release-check
release-check: ## build a release of VERSION twice, from clones in other folders, with empty caches; compare, sign, verify, install
	PYTHON="$(PYTHON)" tools/release-check.sh $(VERSION)

.PHONY: notices
notices: ## write the licences of what the program contains, which are committed
	cd tools/bom && go run . notices ../..

.PHONY: sbom
sbom: ## build the program into dist/, with its bill of materials (CycloneDX)
	CGO_ENABLED=0 go build -trimpath -o dist/khop ./cmd/khop
	cd tools/bom && go run . sbom ../.. ../../dist/khop >../../dist/khop.cdx.json

.PHONY: reproducible-check
reproducible-check: ## build program and wheel twice, in other folders and with empty caches; fail if a byte differs
	tools/reproducible.sh --empty-caches

# --- CUDA: nothing here needs a GPU or an installed toolkit; the pinned wheels go to .venv-cuda -----------------------

.PHONY: ptx
ptx: ## compile every .cu to PTX, write a pack for each folder and a launcher for each kernel, print registers (CU=path: only its folder)
	@tools/cuda-env.sh >/dev/null
	@python3 tools/ptx/ptx.py $(CU)

.PHONY: ptx-check
ptx-check: ## fail if a committed pack of PTX or a launcher is not what the .cu files give
	@tools/cuda-env.sh >/dev/null
	@python3 tools/ptx/ptx.py --check $(ANEW) $(CU)

.PHONY: cuda-env
cuda-env: ## print the exports for go build -tags cuda: eval "$$(make -s cuda-env)"
	@tools/cuda-env.sh

.PHONY: cubins
cubins: ## assemble the PTX for sm_80 and sm_90 into device/cubins, for programs that are built with -tags cuda,cubins
	@tools/cuda-env.sh >/dev/null
	@python3 tools/ptx/cubins.py

# ARCH=arm64 is Grace's. Debian's gcc-aarch64-linux-gnu compiles for it elsewhere.
CUDA_GO = GOARCH=$(or $(ARCH),$(shell go env GOARCH)) $(if $(filter arm64,$(ARCH)),\
	CC=$${CC:-aarch64-linux-gnu-gcc} CGO_LDFLAGS="$$CGO_LDFLAGS -Wl$(comma)--no-warn-search-mismatch") go
comma = ,

.PHONY: khop-cuda
khop-cuda: $(if $(filter no,$(CUBINS)),,cubins) ## write dist/khop-cuda, which uses a GPU where there is one; ARCH=arm64 writes dist/khop-cuda-arm64; CUBINS=no: with PTX alone
	@mkdir -p dist
	@set -e; exports=$$(tools/cuda-env.sh); eval "$$exports"; \
		$(CUDA_GO) build -tags cuda,$(if $(filter no,$(CUBINS)),,cubins$(comma))netgo,osusergo -trimpath -ldflags='-s -w' \
		-o dist/khop-cuda$(ARCH:%=-%) ./cmd/khop
	@ls -l dist/khop-cuda$(ARCH:%=-%)

.PHONY: arm64-cuda-check
arm64-cuda-check: ## link with the headers of CUDA 11, 12 and 13 for arm64, and run khop-cuda by qemu-user without a driver
	@$(MAKE) --no-print-directory -s cuda-headers khop-cuda ARCH=arm64
	tools/without-driver.sh qemu-aarch64 -L $(or $(QEMU_LD_PREFIX),/usr/aarch64-linux-gnu) dist/khop-cuda-arm64

.PHONY: cudasim
cudasim: ## compile every .cu into dist/libcudasim.so, a driver that checks kernels on the CPU
	@mkdir -p dist && flock dist/.cudasim.lock $(MAKE) --no-print-directory -s -j2 -C internal/cudasim

.PHONY: cudasim-ptx
cudasim-ptx: cudasim ## write dist/libcudasim-ptx.so, which runs the committed PTX in place of the .cu files
	@flock dist/.cudasim.lock sh -c 'python3 tools/ptx/pack.py dist/ptx && $(MAKE) --no-print-directory -s -j2 -C internal/cudasim ptx'

.PHONY: ptx-judge
ptx-judge: cudasim ## let another interpreter of PTX, JUDGE=LIBRARY, run each launch of the device tests, and compare bytes (ARGS: folders)
	@set -e; exports=$$(tools/cuda-env.sh); eval "$$exports"; \
		KHOP_CUDA_DRIVER=$$PWD/dist/libcudasim.so python3 tools/ptxjudge/ptxjudge.py "$(JUDGE)" $(ARGS)

.PHONY: planted
planted: cudasim ## plant faults of 15 classes in kernels and device code; fail if a test misses one (ARGS=--write: docs/results/mutations.md)
	@set -e; exports=$$(tools/cuda-env.sh); eval "$$exports"; python3 tools/planted/planted.py $(ARGS)

.PHONY: judges
judges: ## run others' test suites against khop, at pinned commits (ONLY=graphar: one suite; FOLDER=DIR: their sources): docs/results/judges.md; 5 GB, 11 minutes on two cores
	CGO_ENABLED=0 go build -o dist/khop ./cmd/khop
	$(MAKE) library
	$(or $(PYTHON),python3) tools/judges/run.py --setup $(addprefix --only ,$(ONLY)) $(if $(FOLDER),--sources $(FOLDER)) $(ARGS)

.PHONY: planted-drawn
planted-drawn: cudasim ## plant N faults in kernels, drawn by SEED, and list those that the device tests miss (ARGS: files)
	@set -e; exports=$$(tools/cuda-env.sh); eval "$$exports"; python3 tools/planted/drawn.py --count $(or $(N),40) --seed $(or $(SEED),1) $(ARGS)

.PHONY: cuda-headers
cuda-headers: ## see that device links with the headers of CUDA 11, 12 and 13 (MAJORS=, ARCH=arm64)
	@set -e; for major in $(or $(MAJORS),11 12 13); do \
		echo "CUDA $$major"; exports=$$(tools/cuda-env.sh $$major); eval "$$exports"; \
		$(CUDA_GO) test -tags cuda -c -o /dev/null ./device; \
	done

.PHONY: gpu-bundle
gpu-bundle: ## write dist/gpu, which tests and measures khop on a machine with a GPU: dist/gpu/run there
	@bench/gpu/bundle.sh
