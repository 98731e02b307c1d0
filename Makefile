GO ?= go
GOLANGCI ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT ?= $(GO) run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
FUZZTIME ?= 20s
FOR ?= 1m
RACED ?= $$($(GO) list ./... | grep -v /codec)
HELM ?= $(GO) run helm.sh/helm/v3/cmd/helm@v3.18.4
HUGO ?= CGO_ENABLED=0 $(GO) run github.com/gohugoio/hugo@v0.163.3
VERSION ?= $(shell sed -n 's/^var Release = "\(.*\)"/\1/p' internal/daemon/version.go)
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
BENCH ?= .
BENCHCOUNT ?= 6

.PHONY: help reference build build-platform test race fuzz fuzz-smoke oss-fuzz simulate simulate-mutants planted-faults codec-mutants bench bench-tool bench-flood bench-compare bench-peers vuln lint check demo interop interop-peers interop-nethernet kubernetes pictures charts chaos beside fleet soak module release release-check image chart site recording

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

build: ## build ./tidegate
	$(GO) build -trimpath -o tidegate .

# For the workflow: a release builds all of PLATFORMS.
build-platform: ## build and vet for PLATFORM=os/arch, and keep nothing
	GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM))) CGO_ENABLED=0 $(GO) build -o /dev/null .
	GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM))) $(GO) vet ./...

test: ## run all tests, those that take much processor time, too
	TIDEGATE_HEAVY=1 $(GO) test -timeout 20m ./...
	cd tools/bench && $(GO) test ./...

# Codecs have no goroutines, and tests in virtual time have one. Most parallel tests wait: so more than the cores.
race: ## run the tests of concurrent code under the race detector, shuffled
	$(GO) test -race -short -shuffle on -parallel 4 $(RACED)

# Fuzzes target $(2) of folder $(1) for time $(3), and prints how long and how many inputs. Go keeps an input that fails
# in testdata. Without a bound, the search for a shorter form of each new input takes most of the time. Go sometimes
# reports the end of the time as a failure.
fuzz = out=$$(cd "$(1)" && $(GO) test -run '^$$' -fuzz "^$(2)$$" -fuzztime $(3) -fuzzminimizetime 20x . 2>&1) \
	|| { echo "$$out" | grep -qx ' *context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input'; } \
	|| { echo "$$out"; exit 1; }; \
	echo "$(1) $(2): $$(echo "$$out" | grep -o 'elapsed: .*' | tail -1)"

fuzz: ## run every fuzz target for FUZZTIME each, and print the number of inputs
	@set -e; $(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
		for target in $$(grep -hso '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/^func //'); do \
			$(call fuzz,$$dir,$$target,$(FUZZTIME)); \
		done; \
	done

# Fuzzes target $(2) of folder $(1) with $(3) inputs, some 12 s, from its seeds alone: replaying the inputs that Go has
# kept from earlier runs takes longer than that. The folder's program is built once, by built.
smoke = (cd "$(1)" && "$$dir/$(subst /,-,$(1)).test" -test.run '^$$' -test.fuzz '^$(2)$$' -test.fuzztime $(3)x \
		-test.fuzzminimizetime 20x -test.fuzzcachedir "$$dir/cache") > "$$dir/out" 2>&1 || { cat "$$dir/out"; exit 1; }; \
	echo "$(1) $(2): $$(grep -o 'elapsed: .*execs: [0-9]*.*' "$$dir/out" | tail -1)"
built = $(GO) test -c -fuzz . -o "$$dir/$(subst /,-,$(1)).test" ./$(1)

oss-fuzz: ## build every fuzz target for libFuzzer as OSS-Fuzz does, and run its seeds; needs clang, takes some 20 minutes
	@set -e; source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; ln -s $(CURDIR) "$$source/tidegate"; \
	rm -rf dist/oss-fuzz; mkdir -p dist/oss-fuzz; export OUT=$(CURDIR)/dist/oss-fuzz; \
	SRC=$$source CXX=clang++ CXXFLAGS= LIB_FUZZING_ENGINE=-fsanitize=fuzzer packaging/oss-fuzz/build.sh; \
	for seeds in "$$OUT"/*.zip; do target=$${seeds%_seed_corpus.zip}; mkdir "$$target.seeds"; \
		python3 -m zipfile -e "$$seeds" "$$target.seeds"; \
		"$$target" -runs=0 "$$target.seeds" > "$$target.log" 2>&1 || { tail -20 "$$target.log"; exit 1; }; \
		echo "$${target##*/}: $$(ls "$$target.seeds" | wc -l) seeds, $$(grep -o 'cov: [0-9]*' "$$target.log" | tail -1)"; \
	done

fuzz-smoke: ## fuzz whole connections, decode and the Relay for half a minute
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(call built,internal/protocols); \
	$(call built,proxy/relay); \
	$(call smoke,internal/protocols,FuzzServerSide,60000); \
	$(call smoke,internal/protocols,FuzzClientSide,60000); \
	$(call smoke,internal/protocols,FuzzForged,15000); \
	$(call smoke,internal/protocols,FuzzDescribe,15000); \
	$(call smoke,proxy/relay,FuzzRelay,3000)

simulate: ## play games in virtual time for FOR=1m or GAMES=1000, fresh ones or from SEED=n; shortens one that fails
	$(GO) test ./proxy/relay -count 1 -timeout 24h -v -run '^TestSimulate(Calls)?$$' \
		$(if $(GAMES),-games $(GAMES),-simulate $(FOR)) $(if $(SEED),-seed $(SEED))

simulate-mutants: ## plant faults in the code, one after the other; the simulation must find each
	$(GO) test ./proxy/relay -count 1 -timeout 24h -v -run '^TestMutants$$' -mutants $(or $(GAMES),20000)

planted-faults: ## plant each fault that was found from outside; the test named beside it must find it
	$(GO) test . -count 1 -timeout 1h -v -run '^TestPlantedFaults$$' -planted

codec-mutants: ## plant faults in a codec, one after the other; what any codec runs must find each
	$(GO) test ./codec/enet -count 1 -timeout 1h -v -run '^TestMutants$$' -mutants

bench: ## run the benchmarks; BENCH=pattern, result in bench-new.txt
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) ./... | tee bench-new.txt

bench-tool: build ## build ./tidegate-bench, which measures ./tidegate beside other programs
	cd tools/bench && $(GO) build -trimpath -o ../../tidegate-bench .

bench-flood: bench-tool ## flood Tidegate, and nginx if it is installed; as root, with forged addresses
	./tidegate-bench flood $$(command -v nginx > /dev/null && echo --vs nginx)

bench-compare: ## compare bench-old.txt with bench-new.txt
	$(BENCHSTAT) bench-old.txt bench-new.txt

# What bench-peers measures; docs/benchmarks/peers.md has the result. Where a peer is not installed it says so and goes on.
define peers
forward --sessions 1000 --grow 10000 --vs all
forward --sessions 1000 --rate 20000 --vs nginx
forward --sessions 1000 --rate 20000 --delay 1ms --vs nginx
forward --sessions 100 --rate 2000 --window 2s --vs nginx
forward --sessions 100 --rate 200 --window 4s --vs nginx
edge --sessions 1000 --rate 20000 --vs nginx
bridge --sessions 1
bridge --sessions 10
bridge --sessions 100
bridge --sessions 1000
bridge --sessions 1000 --burst 3 --flight 768
bridge --sessions 1000 --from riptide-2.2 --to raknet
bridge --sessions 100 --from rudp --to raknet
ticks --sessions 100
ticks --sessions 1000
handshakes --window 2s
handshakes --rate 100 --window 2s
join --window 4s
join --window 4s --loss 5%
bulk --rounds 5
sessions --sessions 10000 --window 6s --rounds 3
sessions --sessions 5000 --window 20s --rounds 3 --from bedrock --to bedrock
endef
export peers

bench-peers: bench-tool ## measure Tidegate beside nginx and others for half an hour, result in bench-peers.txt
	@{ echo "$$peers" | while read -r line; do \
		set -- $$line; scenario=$$1; shift; \
		test $$scenario = bulk || set -- --window 500ms "$$@"; \
		echo "== tidegate-bench $$line"; ./tidegate-bench $$scenario "$$@" 2>/dev/null; echo; \
	done; \
	echo "== timers of 50,000 idle sessions"; $(GO) test -run '^$$' -bench IdleTimers -benchtime 100x ./proxy/relay | grep Benchmark; \
	} | tee bench-peers.txt

vuln: ## look for known faults of the linked modules, at vuln.go.dev; without the network it says so, and passes
	@if curl -sfm 10 -o /dev/null https://vuln.go.dev/index/db.json; then \
		$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...; \
	else echo "vuln: vuln.go.dev cannot be reached, nothing was checked"; fi

lint: ## check format, vet, lint and tidiness
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt the files above"; exit 1; }
	$(GO) mod tidy -diff
	cd tools/bench && $(GO) mod tidy -diff && $(GO) vet ./...
	cd interop/peers/nethernet && $(GO) mod tidy -diff && $(GO) vet -tags interop ./...
	$(GO) vet ./...
	$(GO) vet -tags interop,chaos,beside,soak ./interop/...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOARCH=386 $(GO) build -o /dev/null .
	$(GOLANGCI) run

check: lint test race ## what must pass before a change is handed in

demo: ## show the main job
	$(GO) run . demo

interop: interop-peers interop-nethernet ## talk to real independent peers; needs Python, Node, Java with Maven, Rust, Debian and Chromium

# The tests mostly wait.
interop-peers:
	$(GO) test -tags interop -count 1 -parallel 6 -timeout 30m ./interop/...

interop-nethernet:
	cd interop/peers/nethernet && $(GO) test -tags interop -count 1 -parallel 4 -timeout 20m ./...

pictures: build recording ## take the picture of the dashboard for the documentation; needs Chromium
	@dir=$$(mktemp -d) && (cd interop/peers/dashboard && TIDEGATE=$(CURDIR)/tidegate SHOTS=$$dir $(GO) test -count 1 .) \
		&& cp $$dir/now-light-1280.png docs/pictures/dashboard.png && echo "screenshots of all pages: $$dir"

reference: ## write the tables of docs/configuration and the JSON schema from config.example.toml
	$(GO) test ./internal/config -run "TestReferenceIsWhole|TestSchemaIsCurrent" -update

charts: ## draw the charts of docs/benchmarks.md from the tables
	cd packaging/charts && $(GO) run . ../../docs

kubernetes: ## find servers in a real Kubernetes API server; the first time builds it and etcd, about 15 minutes
	interop/peers/kubernetes/build.sh
	$(GO) test -tags interop -count 1 -v -run '^TestKubernetes' ./interop

chaos: ## break the real binary and its surroundings, and print a table; needs the same, and util-linux
	$(GO) test -tags 'interop chaos' -count 1 -timeout 20m -v -run '^TestChaos$$' ./interop

beside: ## play each situation with and without Tidegate, and print a table; TIDEGATE=binary, ROW=pattern; needs root and the same as interop
	$(GO) test -tags 'interop beside' -count 1 -parallel 4 -timeout 60m -v -run '^TestBeside$$/$(ROW)' ./interop

fleet: ## run a fleet with its NATS servers in network namespaces, and break its parts; needs root and util-linux
	$(GO) test -tags 'interop soak' -count 1 -v -run '^TestFleet(Drain)?InNamespaces$$' ./interop

soak: ## play for FOR=1h with players that come and go; nothing may grow or be lost; HOSTILE=1 adds hostile senders
	$(GO) test -tags 'interop soak' -count 1 -timeout 24h -v -run '^Test(Soak|Trend)$$' ./interop -soak $(FOR) \
		$(if $(HOSTILE),-hostile)

module: ## give the source the name PATH=example.org/you/tidegate, and the chart IMAGE=registry/you/tidegate
	@test "$(origin PATH)" = "command line" || { echo "want PATH=example.org/you/tidegate"; exit 1; }
	PATH="$(dir $(shell command -v $(GO))):/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin" $(GO) run ./packaging/module -image "$(IMAGE)" "$(PATH)"

release: ## build archives, packages, lists of components, licences and checksums into dist/
	$(GO) run ./packaging/release -platforms $(PLATFORMS)

release-check: ## build the release of this commit twice, in two folders, and compare every byte
	@test -z "$$(git status --porcelain)" || { echo "commit first: the second build has only committed files"; exit 1; }
	@set -e; at=$$(git rev-parse HEAD); $(GO) run ./packaging/release -platforms $(PLATFORMS); \
		twin=$$(mktemp -d); git clone -q . $$twin; git -C $$twin checkout -q $$at; \
		(cd $$twin && $(GO) run ./packaging/release -platforms $(PLATFORMS)); \
		diff dist/SHA256SUMS $$twin/dist/SHA256SUMS && echo "both are the same"; rm -rf $$twin

image: ## build the container image for both architectures; needs Docker with buildx
	docker buildx build --platform linux/amd64,linux/arm64 -t tidegate:$(VERSION) --build-arg VERSION=$(VERSION) \
		--build-arg COMMIT=$$(git rev-parse HEAD) -f packaging/docker/Dockerfile .

chart: ## check the Helm chart
	$(HELM) lint packaging/helm/tidegate --set admin.token=0123456789abcdef
	$(HELM) template games packaging/helm/tidegate \
		--set admin.token=0123456789abcdef,udpRoute.enabled=true,podMonitor.enabled=true \
		--set replicas=2,podDisruptionBudget.enabled=true \
		--set 'topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname'
	$(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,discovery.endpoints=true \
		-f examples/kubernetes/fleet-values.yaml
	$(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,fleet.enabled=true \
		--set 'fleet.servers[0]=tls://nats.example.com:4222,fleet.existingSecret=nats,fleet.nkey=true' \
		--set fleet.limits=true,fleet.follow=true
	! $(HELM) template games packaging/helm/tidegate --set admin.token=short 2>/dev/null
	! $(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,replica=2 2>/dev/null
	! $(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,fleet.enabled=true 2>/dev/null
	! $(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,fleet.limits=yes 2>/dev/null
	! $(HELM) template games packaging/helm/tidegate --set admin.token=0123456789abcdef,fleet.drain.seconds=0 2>/dev/null

recording: build ## record the demo in docs/pictures/demo.svg; installs termtosvg in a folder of its own
	python3 -m venv dist/termtosvg && dist/termtosvg/bin/pip -q install termtosvg==1.1.0
	script -qec "dist/termtosvg/bin/termtosvg docs/pictures/demo.svg -g 80x30 -t window_frame -m 200 -M 1500 -D 4000 \
		-c packaging/pictures/demo.sh" /dev/null

site: ## make the documentation's site in dist/site, and check its links; the first time compiles Hugo for minutes
	@mkdir -p dist && touch dist/go.mod # its copies of the examples are no packages of this module
	$(HUGO) --source packaging/site --destination $(CURDIR)/dist/site --cleanDestinationDir
	TIDEGATE_SITE=$(CURDIR)/dist/site $(GO) test -count 1 -run TestSite ./packaging
