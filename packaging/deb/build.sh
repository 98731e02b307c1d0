#!/bin/sh
# Builds a Debian package from a binary of `make release`: build.sh VERSION ARCH. It needs dpkg-deb and no privileges.
set -eu
version=$1 arch=$2
cd "$(dirname "$0")/../.."
tree=$(mktemp -d)
chmod 755 "$tree"
trap 'rm -rf "$tree"' EXIT

put() { install -D -m "$1" "$2" "$tree$3"; }
put 755 "dist/tidegate-linux-$arch" /usr/bin/tidegate
put 644 config.example.toml /etc/tidegate/tidegate.toml
# The service cannot write beside its configuration.
sed -i 's|^# file = "bans.jsonl"$|file = "/var/lib/tidegate/bans.jsonl"|' "$tree/etc/tidegate/tidegate.toml"
grep -q '^file = "/var/lib' "$tree/etc/tidegate/tidegate.toml"
put 644 config.example.toml /usr/share/doc/tidegate/config.example.toml
put 644 LICENSE /usr/share/doc/tidegate/copyright
put 644 packaging/systemd/tidegate.service /usr/lib/systemd/system/tidegate.service
put 644 dist/tidegate.1.gz /usr/share/man/man1/tidegate.1.gz
put 644 dist/completion.bash /usr/share/bash-completion/completions/tidegate
put 644 dist/completion.zsh /usr/share/zsh/vendor-completions/_tidegate
put 644 dist/completion.fish /usr/share/fish/vendor_completions.d/tidegate.fish
for script in postinst prerm postrm; do
	put 755 packaging/deb/$script /DEBIAN/$script
done
echo /etc/tidegate/tidegate.toml > "$tree/DEBIAN/conffiles"
cat > "$tree/DEBIAN/control" <<EOF
Package: tidegate
Version: $(echo "$version" | sed 's/-/~/')
Architecture: $arch
Section: net
Priority: optional
Recommends: systemd
Installed-Size: $(du -ks "$tree" | cut -f1)
Maintainer: The Tidegate authors <tidegate@localhost>
Description: proxy for game servers that speaks the games' own protocols
 Tidegate stands in front of game servers, terminates each client's
 reliability layer, and forwards whole messages over RakNet, Riptide, RUDP or R-Type.
EOF
dpkg-deb --root-owner-group --build "$tree" "dist/tidegate_${version}_$arch.deb"
