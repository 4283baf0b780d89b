# The front door. On a fresh Debian 12 with only git and make, each target does all of its own set-up:
#
#   make run      build the programs, then start paild in the foreground on its defaults
#   make test     build, then run every test
#   make demo     three gateways share one limit, told as a table
#   make build    everything, tests too: the binaries are in build/release/bin
#   make asan     the tests under the address and undefined-behaviour sanitizers
#   make tsan     engine, table, client and epoll tests under the thread sanitizer
#   make fuzz     every fuzzer for FUZZ_SECONDS (60), with clang, from the golden vectors on
#   make compare  Pail beside Redis and memcached, which it installs: rates, latencies, bytes a key
#   make clean    remove build/

JOBS         ?= $(shell nproc)
BIN          := build/release/bin

.PHONY: run test demo build asan tsan fuzz build-asan build-tsan build-fuzz compare clean dependencies
.DEFAULT_GOAL := build

# $(call build,PRESET[,TARGETS]): configure once, then build.
define build
	@test -f build/$(1)/build.ninja || cmake --preset $(1)
	@cmake --build --preset $(1) --parallel $(JOBS) $(if $(2),--target $(2))
endef

dependencies:
	@packaging/install-dependencies.sh

build: dependencies
	$(call build,release)

run: dependencies
	$(call build,release,paild pail pail-bench)
	@exec $(BIN)/paild

test: build
	@ctest --test-dir build/release --output-on-failure --parallel $(JOBS)

demo: dependencies
	$(call build,release,three_gateways)
	@$(BIN)/three_gateways

build-asan: dependencies
	$(call build,asan)
asan: build-asan
	@ctest --test-dir build/asan --output-on-failure --parallel $(JOBS) -LE once

build-tsan: dependencies
	$(call build,tsan,engine_tests stress_tests client_tests client_server_tests)
tsan: build-tsan
	@ctest --test-dir build/tsan --output-on-failure --parallel $(JOBS) -L tsan

build-fuzz: dependencies
	@packaging/install-dependencies.sh packaging/fuzz-packages.txt
	$(call build,fuzz,fuzzers)
fuzz: build-fuzz
	@tests/fuzz/run.sh

compare: dependencies
	$(call build,release,paild pail-bench)
	@packaging/install-dependencies.sh packaging/compare-packages.txt
	@$(BIN)/pail-bench compare $(COMPARE)

clean:
	rm -rf build
