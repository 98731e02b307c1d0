GO ?= go
GOLANGCI ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT ?= $(GO) run golang.org/x/perf/cmd/benchstat@latest
FUZZTIME ?= 20s
SMOKETIME ?= 14s
HELM ?= $(GO) run helm.sh/helm/v3/cmd/helm@v3.18.4
HUGO ?= CGO_ENABLED=0 $(GO) run github.com/gohugoio/hugo@v0.163.3
VERSION ?= $(shell sed -n 's/^var Release = "\(.*\)"/\1/p' internal/daemon/version.go)
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
BENCH ?= .
BENCHCOUNT ?= 6

.PHONY: help build test race fuzz fuzz-smoke bench bench-flood bench-compare bench-peers lint check demo interop chaos release release-check image chart site

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

build: ## build ./tidegate
	$(GO) build -trimpath -o tidegate .

test: ## run all tests
	$(GO) test ./...
	$(GO) test -tags flood -run Flood ./internal/cli

race: ## run all tests under the race detector, shuffled; fewer seeds
	$(GO) test -race -short -shuffle on ./...

# Fuzzes target $(2) of folder $(1) for time $(3), and prints how long and how many inputs. Go keeps an input that fails
# in testdata. Without a bound, the search for a shorter form of each new input takes most of the time.
fuzz = out=$$(cd "$(1)" && $(GO) test -run '^$$' -fuzz "^$(2)$$" -fuzztime $(3) -fuzzminimizetime 20x . 2>&1) \
	|| { echo "$$out"; exit 1; }; echo "$(1) $(2): $$(echo "$$out" | grep -o 'elapsed: .*' | tail -1)"

fuzz: ## run every fuzz target for FUZZTIME each, and print the number of inputs
	@set -e; $(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
		for target in $$(grep -hso '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/^func //'); do \
			$(call fuzz,$$dir,$$target,$(FUZZTIME)); \
		done; \
	done

fuzz-smoke: ## fuzz whole connections and the Relay for SMOKETIME each
	@set -e; $(call fuzz,internal/protocols,FuzzServerSide,$(SMOKETIME))
	@set -e; $(call fuzz,internal/protocols,FuzzClientSide,$(SMOKETIME))
	@set -e; $(call fuzz,internal/protocols,FuzzForged,$(SMOKETIME))
	@set -e; $(call fuzz,proxy,FuzzRelay,$(SMOKETIME))

bench: ## run the benchmarks; BENCH=pattern, result in bench-new.txt
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) ./... | tee bench-new.txt

bench-flood: ## flood Tidegate, and nginx if it is installed; as root, with forged addresses
	$(GO) build -trimpath -tags flood -o tidegate-flood .
	./tidegate-flood bench flood $$(command -v nginx > /dev/null && echo --vs nginx)

bench-compare: ## compare bench-old.txt with bench-new.txt
	$(BENCHSTAT) bench-old.txt bench-new.txt

# What bench-peers measures; docs/benchmarks.md has the result. Where a peer is not installed it says so and goes on.
define peers
forward --sessions 1000 --grow 10000 --vs all
forward --sessions 1000 --rate 20000 --vs nginx
forward --sessions 1000 --rate 20000 --delay 1ms --vs nginx
bridge --sessions 1
bridge --sessions 10
bridge --sessions 1000
bridge --sessions 1000 --burst 3 --flight 768
bridge --sessions 1000 --from riptide-2.2 --to raknet
bridge --sessions 100 --from rudp --to raknet
handshakes --window 2s
handshakes --rate 100 --window 2s
sessions --sessions 10000 --window 6s --rounds 3
sessions --sessions 5000 --window 20s --rounds 3 --from bedrock --to bedrock
endef
export peers

bench-peers: build ## measure Tidegate beside nginx and others for a quarter of an hour, result in bench-peers.txt
	@{ echo "$$peers" | while read -r line; do \
		set -- $$line; scenario=$$1; shift; \
		echo "== tidegate bench $$line"; ./tidegate bench $$scenario --window 500ms "$$@" 2>/dev/null; echo; \
	done; \
	echo "== timers of 50,000 idle sessions"; $(GO) test -run '^$$' -bench IdleTimers -benchtime 100x ./proxy | grep Benchmark; \
	} | tee bench-peers.txt

lint: ## check format, vet, lint and tidiness
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt the files above"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) vet -tags flood ./internal/cli
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOARCH=386 $(GO) build -o /dev/null .
	$(GOLANGCI) run

check: lint test race ## what must pass before a change is handed in

demo: ## show the main job
	$(GO) run . demo

interop: ## talk to real independent peers; needs Python, Node, Java with Maven, Rust and Debian
	$(GO) test -tags interop -count 1 -parallel 4 ./interop/...

chaos: ## break the real binary and its surroundings, and print a table; needs the same, and util-linux
	$(GO) test -tags 'interop chaos' -count 1 -timeout 20m -v -run '^TestChaos$$' ./interop

release: ## build archives, packages, lists of components, licences and checksums into dist/
	$(GO) run ./packaging/release -platforms $(PLATFORMS)

release-check: ## build the release twice, in two folders, and compare every byte
	$(GO) run ./packaging/release -platforms $(PLATFORMS)
	@set -e; twin=$$(mktemp -d); git clone -q . $$twin; \
		(cd $$twin && $(GO) run ./packaging/release -platforms $(PLATFORMS)); \
		diff dist/SHA256SUMS $$twin/dist/SHA256SUMS && echo "both are the same"; rm -rf $$twin

image: ## build the container image for both architectures; needs Docker with buildx
	docker buildx build --platform linux/amd64,linux/arm64 -t tidegate:$(VERSION) --build-arg VERSION=$(VERSION) \
		--build-arg COMMIT=$$(git rev-parse HEAD) -f packaging/docker/Dockerfile .

chart: ## check the Helm chart
	$(HELM) lint packaging/helm/tidegate --set admin.token=0123456789abcdef
	$(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,udpRoute.enabled=true,podMonitor.enabled=true

site: ## make the documentation's site in dist/site, and check its links; the first time compiles Hugo for minutes
	$(HUGO) --source packaging/site --destination $(CURDIR)/dist/site --cleanDestinationDir
	TIDEGATE_SITE=$(CURDIR)/dist/site $(GO) test -count 1 -run TestSite ./packaging
