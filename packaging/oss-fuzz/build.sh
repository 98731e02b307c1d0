#!/bin/bash -eu
# Builds every fuzz target into $OUT, with the dictionary, and with the datagrams of a codec's captures as seeds.
# OSS-Fuzz has compile_native_go_fuzzer in its image. That tool builds one test file with a testing package of its own.
# So 10 of the 62 targets compile there as they are: the others need helpers of other test files, or codectest's.
cd "${SRC:-.}/tidegate"
module=$(sed -n 's/^module //p' go.mod)
grep -rE --include='*_test.go' '^func Fuzz' codec internal proxy | while IFS=: read -r file line; do
	folder=$(dirname "$file")
	target=$(echo "$line" | sed -E 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/')
	name="$(echo "$folder" | tr / _)_$target"
	compile_native_go_fuzzer "$module/$folder" "$target" "$name"
	cp packaging/oss-fuzz/protocols.dict "$OUT/$name.dict"
	# Only a target of one byte string takes a datagram as it is.
	codec=$(echo "$folder" | cut -d / -f 1-2)
	if grep -qE 'f\.Fuzz\(func\(t \*testing\.T, [a-z]+ \[\]byte\)' "$file" && [ -d "$codec/testdata" ]; then
		seeds="/tmp/seeds.$$.$(basename "$codec").zip"
		[ -e "$seeds" ] || python3 packaging/oss-fuzz/seeds.py "$codec/testdata" "$seeds"
		cp "$seeds" "$OUT/${name}_seed_corpus.zip"
	fi
done
rm -f /tmp/seeds.$$.*.zip
