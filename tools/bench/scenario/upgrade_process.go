package scenario

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// upgradeSignal is SIGUSR2 on Linux. Other systems have no upgrades.
const upgradeSignal = syscall.Signal(12)

// errNoUpgrade reports that the process did not upgrade.
var errNoUpgrade = errors.New("the process was not upgraded")

const startTimeout = 30 * time.Second

// start runs Tidegate and waits until it serves.
func (b *upgradeBench) start(listeners []upgradeListener, strangers, echo netip.AddrPort) error {
	admin, err := freeport.Find(process.Loopback)
	if err != nil {
		return err
	}
	upstream := b.setup()
	text := relayConfig(b.Options, upstream, strangers, echo)
	for _, l := range listeners {
		lines := l.transport()
		if l.stream == nil {
			lines = upstream.upstream + unpaced(l.name)
		}
		text += fmt.Sprintf(`
[[listener]]
name = %[1]q
address = %[2]q
protocols = [%[5]q]
route = %[1]q
%[6]s[[route]]
name = %[1]q
upstream = %[1]q
[[upstream]]
name = %[1]q
protocol = %[5]q
servers = [%[3]q]
%[4]s`, l.entry(), l.at, l.game.addr(), lines, l.protocol.Spec().Name, l.transport())
	}
	if b.dir, err = os.MkdirTemp("", "tidegate-bench"); err != nil {
		return err
	}
	text += common(b.Options, upstream, admin) + fmt.Sprintf(`[log]
format = "json"
access_file = %q
`, accessFile)
	file, err := process.WriteFile(b.dir, "upgrade.toml", text)
	if err != nil {
		return err
	}
	command := b.self("run", "-c", file)
	b.process = exec.Command(command[0], command[1:]...)
	log, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	b.process.Stderr = theirs
	process.Group(b.process)
	if err := b.process.Start(); err != nil {
		return err
	}
	b.group = b.process.Process.Pid
	_ = theirs.Close()
	go b.read(log)
	_, err = b.await(lineRunning, nil)
	return err
}

// setup returns the setup of the measured process.
func (b *upgradeBench) setup() setup {
	if b.Sessions+b.Idle > 5000 { // one descriptor for each is too many for some machines
		return setup{"upgrade", anyIP, "off"}
	}
	return setup{"upgrade", "", "off"}
}

// Lines of the log that the measurement waits for.
const (
	lineRunning = "tidegate is running"
	lineHanded  = "handed over; this process ends"
)

// read reads the log of the process and of its successors. It keeps the lines that the measurement waits for, and
// errors. A busy process can log thousands of others.
func (b *upgradeBench) read(log io.ReadCloser) {
	defer func() { _ = log.Close() }()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			line = map[string]any{"message": lines.Text(), "level": "error"}
		}
		if m := line["message"]; m != lineRunning && m != lineHanded && line["level"] != "error" {
			continue
		}
		select {
		case b.lines <- line:
		default: // the queue is full
		}
	}
}

// await waits for a line of the log, while the clients play. ended receives the end of the process that writes it: then
// the line is in the log already.
func (b *upgradeBench) await(message string, ended <-chan error) (map[string]any, error) {
	var last any
	for give := time.Now().Add(startTimeout); time.Now().Before(give); {
		select {
		case err := <-ended:
			last, ended, give = fmt.Sprintf("process ended: %v", err), nil, time.Now().Add(time.Second)
		case line := <-b.lines:
			if line["message"] == message {
				return line, nil
			}
			if line["level"] == "error" {
				return nil, fmt.Errorf("%w: %v: %v", errNoUpgrade, line["message"], line["error"])
			}
			if ended != nil || last == nil {
				last = line["message"]
			}
		default:
			if err := b.play(time.Now().Add(time.Millisecond)); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("%w: no %q in the log; the last line is %q", errNoUpgrade, message, last)
}

// stop ends the process and any successor, also one that has not taken over. It removes their files.
func (b *upgradeBench) stop() {
	if b.group != 0 {
		process.KillGroup(b.group)
		_ = b.process.Wait() // a successor is not our child
	}
	_ = os.RemoveAll(b.dir)
}

// upgrade replaces the process while the clients play.
func (b *upgradeBench) upgrade(r *Upgraded) error {
	old := b.process
	if err := old.Process.Signal(upgradeSignal); err != nil {
		return err
	}
	ended, gone := make(chan error, 2), make(chan struct{}) // two errors: for await, and for this function
	go func() {
		err := old.Wait()
		ended <- err
		ended <- err
		close(gone)
	}()
	line, err := b.await(lineHanded, ended)
	if err != nil {
		process.KillGroup(b.group)
		b.group = 0
		<-gone
		return err
	}
	began := time.Now()
	r.Stood, _ = line["stood_still_ms"].(float64)
	pid, _ := line["successor"].(float64)
	for over := false; !over; {
		select {
		case err = <-ended:
			over = true
		default:
			if err := b.play(time.Now().Add(time.Millisecond)); err != nil {
				return err
			}
		}
	}
	r.Exit = millis(time.Since(began))
	successor, findErr := os.FindProcess(int(pid))
	b.process = &exec.Cmd{Process: successor}
	return errors.Join(err, findErr)
}
