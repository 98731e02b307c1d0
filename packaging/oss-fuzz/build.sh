#!/bin/bash
# Builds every fuzz target into $OUT, with the dictionary and its seeds, and with the files that tests read.
set -eu -o pipefail
cd "${SRC:-.}/tidegate"
# Go replaces no file of a toolchain that it has downloaded itself. A copy elsewhere is a toolchain like any other.
if [[ "$(go env GOROOT)" == "$(go env GOMODCACHE)"* ]]; then
	copy=$(mktemp -d)
	cp -r "$(go env GOROOT)/." "$copy"
	chmod -R u+rwX "$copy"
	export GOROOT="$copy" PATH="$copy/bin:$PATH" GOTOOLCHAIN=local
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ -n "${BUILDER:-}" ]] || { BUILDER="$work/oss-fuzz" && go build -o "$BUILDER" ./packaging/oss-fuzz; }
mkdir -p "$OUT/source"
tar -c --exclude='*.go' codec internal proxy docs config.example.toml | tar -x -C "$OUT/source"
grep -rE --include='*_test.go' '^func Fuzz' codec internal proxy | while IFS=: read -r file line; do
	folder=${file%/*} target=${line#func }
	target=${target%%(*} name=${folder//\//_}_${target}
	if [[ "${SANITIZER:-}" == coverage ]]; then # go test builds this one
		compile_native_go_fuzzer_v2 "$(go list "./$folder")" "$target" "$name"
		continue
	fi
	"$BUILDER" "$folder" "$target" "$work/$name.a"
	$CXX $CXXFLAGS $LIB_FUZZING_ENGINE "$work/$name.a" -o "$OUT/$name"
	rm "$work/$name".*
	cp packaging/oss-fuzz/protocols.dict "$OUT/$name.dict"
	mkdir -p "$work/seeds/$name"
	TIDEGATE_SEEDS="$work/seeds/$name" "$OUT/$name"
done
[[ ! -d "$work/seeds" ]] || python3 - "$work/seeds" "$OUT" <<'END'
import pathlib, shutil, sys
for seeds in pathlib.Path(sys.argv[1]).iterdir():
    shutil.make_archive(f"{sys.argv[2]}/{seeds.name}_seed_corpus", "zip", seeds)
END
