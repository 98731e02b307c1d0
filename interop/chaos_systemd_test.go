//go:build interop && chaos

package interop_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

// bootSystemd makes a root of its own out of the machine's, in namespaces of its own, and becomes systemd there. The
// folder "$1" is at /lab inside. Units that would touch the machine are masked.
const bootSystemd = `set -e
lab="$1"; top="$lab/top"; root="$lab/root"
mkdir -p "$top" "$root"
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$root"
mkdir -p "$root/lab" "$root/old"
mount --bind "$lab" "$root/lab"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -d /sys/fs/cgroup/systemd ]; then
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
	mkdir "$root/sys/fs/cgroup/systemd"
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
else
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
mount -t tmpfs tmpfs "$root/dev" -o mode=755
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages"
for d in null zero full random urandom tty; do
	: > "$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
: > "$root/dev/console"
ip link set lo up
units="$root/etc/systemd/system"
cp "$lab/tidegate.service" "$units/"
mkdir -p "$units/tidegate.service.d" "$root/etc/tidegate"
printf '[Service]\nWatchdogSec=3\nStandardOutput=append:/lab/log\nStandardError=append:/lab/log\n' \
	> "$units/tidegate.service.d/lab.conf"
printf '[Unit]\nDescription=lab\n' > "$units/lab.target"
for unit in sysctl udevd udev-trigger modules-load binfmt random-seed update-utmp journald journal-flush \
	tmpfiles-setup tmpfiles-setup-dev sysusers remount-fs; do
	ln -sfn /dev/null "$units/systemd-$unit.service"
done
cp "$lab/tidegate" "$root/usr/bin/tidegate"
cp "$lab/tidegate.toml" "$root/etc/tidegate/"
chmod 644 "$root/etc/tidegate/tidegate.toml"
cd "$root"
pivot_root . old
umount -l /old
mount --make-rshared /
exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=lab.target \
	--log-target=console --show-status=0
`

// manager is a systemd in namespaces of its own, with the shipped unit.
type manager struct {
	pid int // of systemd, as we see it
	lab string
}

var errNoManager = errors.New("not run: needs root and systemd")

// startManager boots systemd.
func startManager(t *testing.T, configuration string) (*manager, error) {
	t.Helper()
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil || os.Getuid() != 0 {
		return nil, errNoManager
	}
	m := &manager{lab: t.TempDir()}
	if err := os.Chmod(m.lab, 0o755); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(copyFile(filepath.Join(m.lab, "tidegate"), tidegate),
		copyFile(filepath.Join(m.lab, "tidegate.service"), "../packaging/systemd/tidegate.service"),
		os.WriteFile(filepath.Join(m.lab, "tidegate.toml"), []byte(configuration), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, func([]byte) {}, "unshare", "--pid", "--fork", "--kill-child", "--mount",
		"--propagation", "private", "--uts", "--ipc", "--cgroup", "--net", "bash", "-c", bootSystemd, "boot", m.lab)
	children := fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid)
	await.Until(t, "a process in the namespaces", func() bool {
		b, _ := os.ReadFile(children)
		m.pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return m.pid > 0
	})
	t.Cleanup(func() { _ = syscall.Kill(m.pid, syscall.SIGKILL) })
	await.Until(t, "systemd", func() bool {
		_, err := m.run("systemctl", "show", "--property", "Version")
		return err == nil
	})
	return m, nil
}

// run runs a command beside systemd.
func (m *manager) run(args ...string) (string, error) {
	enter := []string{"-t", strconv.Itoa(m.pid), "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w"}
	out, err := exec.Command("nsenter", append(enter, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// shell runs a command line beside systemd, which must succeed.
func (m *manager) shell(t *testing.T, line string) string {
	t.Helper()
	out, err := m.run("sh", "-c", line)
	if err != nil {
		t.Errorf("%s: %v: %s", line, err, out)
	}
	return out
}

// property is a property of the unit.
func (m *manager) property(name string) string {
	out, _ := m.run("systemctl", "show", "tidegate", "--property", name, "--value")
	return out
}

// becomes waits until the unit is active, with another main process than before, and returns its process ID.
func (m *manager) becomes(t *testing.T, what, before string) (pid string) {
	t.Helper()
	await.Until(t, what, func() bool {
		pid = m.property("MainPID")
		return m.property("ActiveState") == "active" && pid != before && pid != "0"
	})
	return pid
}

// underSystemd runs the shipped unit under a real systemd.
func underSystemd(t *testing.T) string {
	p := plan{players: "bedrock", server: "bedrock", port: "19132", servers: []string{"19133"},
		route: fmt.Sprintf("packet_id = %d", packetByte)}
	m, err := startManager(t, p.text("/run/tidegate"))
	if err != nil {
		return err.Error()
	}
	m.shell(t, "systemctl start tidegate")
	pid := m.becomes(t, "started", "")
	for _, signal := range []string{"QUIT", "SEGV", "KILL"} {
		m.shell(t, "kill -"+signal+" "+pid)
		pid = m.becomes(t, "restarted after SIG"+signal, pid)
	}
	m.shell(t, "systemctl reload tidegate")
	m.shell(t, "mv /usr/bin/tidegate /usr/bin/tidegate.bak; cp /lab/tidegate /usr/bin/tidegate; kill -USR2 "+pid)
	pid = m.becomes(t, "upgraded", pid)
	if exe := m.shell(t, "readlink /proc/"+pid+"/exe"); exe != "/usr/bin/tidegate" || m.property("NRestarts") != "3" {
		t.Errorf("the main process is %s, after %s restarts", exe, m.property("NRestarts"))
	}
	<-time.After(4 * time.Second) // longer than the watchdog
	if now := m.property("MainPID"); now != pid || m.property("ActiveState") != "active" {
		t.Errorf("the watchdog has ended the successor: %s is %s", now, m.property("ActiveState"))
	}
	m.shell(t, "systemctl reload tidegate; kill -STOP "+pid)
	pid = m.becomes(t, "restarted by the watchdog", pid)
	m.shell(t, "sed -i 's/packet_id = .*/packet_id = 999/' /etc/tidegate/tidegate.toml; systemctl reload tidegate")
	if now := m.property("MainPID"); now != pid {
		t.Error("a reload of a bad configuration ended the process")
	}
	_, _ = m.run("systemctl", "restart", "tidegate")
	<-time.After(2 * time.Second) // longer than RestartSec
	status, state := m.property("ExecMainStatus"), m.property("ActiveState")
	if status != "78" || state != "failed" {
		t.Errorf("with a bad configuration the unit is %s, exit code %s", state, status)
	}
	m.shell(t, "cp /lab/tidegate.toml /etc/tidegate/; systemctl start tidegate; systemctl stop tidegate")
	return "3 of 3 crashes restarted, 3 reloads, 1 upgrade, the watchdog restarts it, 78 is final"
}
