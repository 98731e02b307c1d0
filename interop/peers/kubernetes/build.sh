#!/usr/bin/env bash
# Builds kube-apiserver and etcd from Go's module proxy into the cache of the interop tests. It takes about 15 minutes
# on two cores, once. The modules are scratch ones: Kubernetes as a dependency needs a replacement of each of its parts.
set -euo pipefail
kubernetes=37.2 # 1.37.2, whose parts are 0.37.2
etcd=3.6.14
to=${XDG_CACHE_HOME:-$HOME/.cache}/tidegate-interop/kubernetes-1.$kubernetes
[ ! -x "$to/kube-apiserver" ] || [ ! -x "$to/etcd" ] || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$to" "$scratch/etcd"
cd "$scratch"
mod=$(go mod download -json k8s.io/kubernetes@v1.$kubernetes | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
{
	printf 'module scratch\n\n'
	grep '^go ' "$mod"
	printf 'require k8s.io/kubernetes v1.%s\n' "$kubernetes"
	sed -n '/^require (/,/^)/p' "$mod" | grep -v 'v0.0.0$'
	sed -n "s|^\t\(k8s.io/[a-z0-9-]*\) => ./staging/.*|replace \1 => \1 v0.$kubernetes|p" "$mod"
} > go.mod
export CGO_ENABLED=0 GOFLAGS=-mod=mod
go build -ldflags '-s -w' -o "$to/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
cd etcd
printf 'module scratch\n\ngo 1.26\n' > go.mod
go get "go.etcd.io/etcd/server/v3@v$etcd"
go build -ldflags '-s -w' -o "$to/etcd" go.etcd.io/etcd/server/v3
