//go:build interop

package interop_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What ENet's peers need beside the registries of Python and Node: Debian's packages and a crate.
var (
	// debian installs the library in C, and Godot.
	debian = newRuntime(runtime{
		name: "debian", version: []string{"sh", "-c", "cat /etc/os-release && dpkg --print-architecture"},
		pins: debianPackages, install: installDebian, line: godotLine,
	})
	// libenet is a script in Python on the library in C.
	libenet = &runtime{name: "libenet", ready: debian.ready, line: func(dir string) (env, line []string) {
		return debianLibraries(dir), []string{"python3", "-B"}
	}}
	rust = newRuntime(runtime{
		name: "rust", version: []string{"rustc", "--version"}, pins: "Cargo.lock", builds: crate, install: installCrate,
		compiled: true,
		line: func(dir string) (env, line []string) {
			return nil, []string{filepath.Join(dir, "target", "release", "enet-peer")}
		},
	})
)

// debianPackages is the file under peers/ with the names of the packages.
const debianPackages = "debian-packages.txt"

// installDebian unpacks the packages and their dependencies, unless the machine has them. It does so without
// root, with lists of its own.
func installDebian(dir string) error {
	names, err := os.ReadFile(filepath.Join("peers", debianPackages))
	if err != nil {
		return err
	}
	for _, folder := range []string{"lists", "cache", "packages", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return err
		}
	}
	options := []string{"-q", "-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" +
		filepath.Join(dir, "cache"), "-o", "APT::Sandbox::User="}
	if err := command(dir, "apt-get", append(options, "update")...); err != nil {
		return err
	}
	try := append(options, "--no-install-recommends", "-s", "install")
	plan, err := exec.Command("apt-get", append(try, strings.Fields(string(names))...)...).Output()
	if err != nil {
		return err
	}
	fetch := append(options, "download")
	for _, line := range strings.Split(string(plan), "\n") {
		// An upgrade has the old version in brackets here. The machine's library does.
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "Inst" && fields[2][0] != '[' {
			fetch = append(fetch, fields[1])
		}
	}
	packages := filepath.Join(dir, "packages")
	if fetch[len(fetch)-1] != "download" {
		if err := command(packages, "apt-get", fetch...); err != nil {
			return err
		}
	}
	fetched, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range fetched {
		if err := command(dir, "dpkg", "-x", file, "root"); err != nil {
			return err
		}
	}
	for _, folder := range []string{"lists", "cache", "packages"} {
		if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
			return err
		}
	}
	return nil
}

// debianLibraries returns the environment in which the unpacked libraries are found.
func debianLibraries(dir string) []string {
	folders, _ := filepath.Glob(filepath.Join(dir, "root", "usr", "lib", "*-linux-gnu*")) // only a bad pattern is an error
	return []string{"LD_LIBRARY_PATH=" + strings.Join(folders, ":")}
}

func godotLine(dir string) (env, line []string) {
	godot := filepath.Join(dir, "root", "usr", "bin", "godot3-server")
	if _, err := os.Stat(godot); err != nil {
		godot = "godot3-server" // the machine has it
	}
	// Godot writes logs into its working directory, and more into these folders.
	home := []string{"XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CACHE_HOME=" + dir}
	return append(debianLibraries(dir), home...), []string{"env", "-C", dir, godot, "-s"}
}

// crate lists the files under peers/ of the Rust peer, beside its lock.
var crate = []string{"Cargo.toml", "enet_peer.rs"}

func installCrate(dir string) error {
	if err := copyPeerFiles(dir, append(crate, "Cargo.lock")...); err != nil {
		return err
	}
	return command(dir, "cargo", "build", "--release", "--locked", "--quiet")
}

// startGodot runs enet_peer.gd, which takes its orders by TCP: Godot 3 cannot read from stdin.
func startGodot(t *testing.T, port, side string) *peer {
	t.Helper()
	orders, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer orders.Close()
	_ = orders.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	p := startScript(t, debian, "enet_peer.gd", port, side, portOf(t, orders.Addr().String()))
	conn, err := orders.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	commands := json.NewEncoder(conn)
	p.do = func(o order) error { return commands.Encode(o) }
	return p
}
