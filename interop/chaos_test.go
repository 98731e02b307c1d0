//go:build interop && chaos

package interop_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// cell is one fault, the expected behavior of the real binary, and the check.
type cell struct {
	name  string
	peers string // the players and the servers
	want  string
	run   func(t *testing.T) (got string)
}

// cells is the table of faults. Each takes at most about 20 s.
var cells = []cell{
	{"the reader of the log stops", "go-raknet, go-raknet",
		"players play on; SIGTERM says goodbye and exits with 0", unreadLog},
	{"the reader of the log dies", "go-raknet, go-raknet", "the same", deadLogReader},
	{"a crash, then a bad configuration", "go-raknet, go-raknet",
		"exit code 2, which the shipped unit restarts; exit code 78, which it does not", crash},
	{"the shipped unit under a real systemd", "–",
		"restarts after crashes and by the watchdog, not after 78; reload and upgrade keep it active", underSystemd},
	{"a listener is removed and put back", "go-raknet, go-raknet",
		"each reload works, also after an upgrade; its player plays on", rollback},
	{"`mv` the binary aside, `cp` a new one, SIGUSR2", "go-raknet, go-raknet",
		"the new file runs; players play on", upgradeMoved},
	{"SIGSTOP for 10 s", "go-raknet and our Riptide, go-raknet", "new players join within 2 s of SIGCONT", frozen},
	{"the file of bans on a full disk, with an expired ban", "go-raknet, go-raknet",
		"starts and says so; bans are in force", fullDisk},
	{"a file of bans with a reason of 9,000 characters", "–", "starts; the ban is in force", longReason},
	{"joins at 10 % loss to the only server", "our Riptide, go-raknet",
		"no player is refused at once; at least 90 % join", lossyJoins},
	{"80 players of one address at once", "our Riptide, pytide; go-raknet, go-raknet",
		"all join; no player is told that the server is full", crowds},
	{"60 forged Connects of one byte", "pytide, pytide", "none joins the game; a real player does", forgedConnects},
	{"a path that drops datagrams over 900 bytes", "go-raknet, go-raknet",
		"the player joins, and 20,000 bytes go there and back", narrowPath},
	{"two TUN devices: delay, loss, duplication, reordering, corruption, rate, MTU, all at once, an outage of 2 s",
		"go-raknet, go-raknet", "every message comes back once, in order, with every byte", tunGoRakNet},
	{"two TUN devices: all at once, and an outage of 300 ms", "our own of five protocols and transports",
		"all play on; every reliable message comes back once", tunProtocols},
	{"64 descriptors for 100 players", "go-raknet, go-raknet",
		"players who are in play on; new ones join when others have left", fewDescriptors},
	{"a neighbor uses up the memory of a control group of 96 MiB", "our RakNet, go-raknet",
		"it says that the limit is too small; players play on, and new ones join", memoryUsed},
	{"the wall clock jumps by -26 h, 2 h, a year, and back", "our RakNet and go-raknet, go-raknet",
		"players play on, also through an upgrade; only the ends of bans move", jumpingClock},
	{"DNS fails, answers garbage, names the proxy itself, then a group", "go-raknet, go-raknet",
		"players play on; the last good answer stays; false addresses are skipped", lyingDNS},
	{"a server stands still for 4 s", "our RakNet, our RakNet", "all play on; no message is lost or doubled", stillServer},
	{"a server is killed and back after 3 s, `hold`", "each protocol and transport",
		"every player keeps its place, within 2 s of the server's return", holds},
	{"a server of 20 players is killed and back, `hold`", "our Riptide, our Riptide",
		"20 of 20 keep their client ID", holdTwenty},
	{"20 players at once to a Riptide 2.0 server over TCP", "our Riptide, a listener that is busy for 1.2 s",
		"each connection has one Connect", connectOnce},
	{"`upstreams drain --move`, 6 times", "our Riptide, our Riptide; our RakNet, go-raknet",
		"no reliable message and no answer is lost or doubled", moves},
	{"notify messages, the server stands still for 500 ms", "our Riptide, our Riptide",
		"no message that arrived is told lost", notifyStall},
	{"10 MB from a server at once", "stock RakNet, stock RakNet", "at most twice the direct time and 0.5 s", tenMegabytes},
	{"300 kB up, 20 % loss each way", "stock RakNet, stock RakNet",
		"at most 1.8 times the direct time and 3 s", lossyUpload},
	{"a server refuses", "stock RakNet, stock RakNet",
		"the client is told 20, 23, 25 and 17, as it is directly", refusals},
	{"a server list pings through a relay", "go-raknet, go-raknet",
		"answered with the port of the proxy; no session", listPings},
}

// TestChaos runs the table and prints it with the measurements.
func TestChaos(t *testing.T) {
	var rows strings.Builder
	started := time.Now()
	for _, c := range cells {
		began, got, ran, skipped := time.Now(), "", false, false
		ok := t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			ran = true
			defer func() { skipped = t.Skipped() }()
			got = c.run(t)
		})
		if ran {
			verdict := map[bool]string{true: "pass", false: "**FAIL**"}[ok]
			if skipped {
				verdict = "skipped"
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s | %.1f |\n", c.name, c.peers, c.want, got, verdict,
				time.Since(began).Seconds())
		}
	}
	fmt.Fprintf(os.Stdout, "\n| fault | players, servers | expected | measured | verdict | seconds |\n"+
		"| --- | --- | --- | --- | --- | ---: |\n%s\n%.0f s in all\n", rows.String(), time.Since(started).Seconds())
}
