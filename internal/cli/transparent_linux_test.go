package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// crossing is the network of transparent mode: the clients' machine, Tidegate's and a game server's. The server's
// datagrams for clients pass through Tidegate's machine.
type crossing struct {
	clients, host, server *netlab.Namespace
}

// openCrossing makes the cables, and configures each machine as the operators' manual says.
func openCrossing(t *testing.T) *crossing {
	t.Helper()
	c := &crossing{netlab.New(t, "players"), netlab.New(t, "host"), netlab.New(t, "server")}
	netlab.Cable(c.clients, "eth0", c.host, "eth0")
	netlab.Cable(c.server, "eth0", c.host, "eth1")
	for _, a := range []struct {
		at           *netlab.Namespace
		device, addr string
	}{
		{c.clients, "eth0", "203.0.113.7/24"}, {c.clients, "eth0", "2001:db8::7/64"},
		{c.host, "eth0", "203.0.113.1/24"}, {c.host, "eth0", "2001:db8::1/64"},
		{c.host, "eth1", "10.1.0.1/24"}, {c.host, "eth1", "fd00:1::1/64"},
		{c.server, "eth0", "10.1.0.2/24"}, {c.server, "eth0", "fd00:1::2/64"},
	} {
		a.at.Address(a.device, a.addr)
	}
	shell(t, c.host, "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth1.rp_filter=1")
	recipe := manualScripts(t, "## Transparent mode")
	if len(recipe) != 2 {
		t.Fatalf("the manual has %d recipes, want those of two machines", len(recipe))
	}
	shell(t, c.host, recipe[0])
	shell(t, c.server, recipe[1])
	return c
}

// manualScripts returns the shell scripts in a section of the operators' manual.
func manualScripts(t *testing.T, heading string) (scripts []string) {
	t.Helper()
	text, err := os.ReadFile("docs/operate/addresses.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			scripts = append(scripts, strings.TrimPrefix(part, "sh\n"))
		}
	}
	return scripts
}

// shell runs a script on a machine.
func shell(t *testing.T, at *netlab.Namespace, script string) {
	t.Helper()
	var out []byte
	var err error
	at.Do(func() { out, err = exec.Command("sh", "-ec", script).CombinedOutput() })
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
}

// machine opens go-raknet's sockets in a network namespace.
type machine struct{ *netlab.Namespace }

func (m machine) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	m.Do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, address) })
	return conn, err
}

func (m machine) ListenPacket(network, address string) (conn net.PacketConn, err error) {
	m.Do(func() { conn, err = net.ListenPacket(network, address) })
	return conn, err
}

// raknetAt starts a game server on a machine, which reports each client.
func raknetAt(t *testing.T, at *netlab.Namespace, addr string) <-chan *gork.Conn {
	t.Helper()
	l, err := gork.ListenConfig{UpstreamPacketListener: machine{at}}.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	clients := make(chan *gork.Conn, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			clients <- conn.(*gork.Conn)
		}
	}()
	return clients
}

// transparentConfig has a terminating route and a relay, each with a RakNet server and for both address families.
func transparentConfig(transparent bool) string {
	text := "[bans]\nfile = \"\"\n"
	for i, address := range []string{"203.0.113.1", "[2001:db8::1]"} {
		server := [...]string{"10.1.0.2", "[fd00:1::2]"}[i]
		for j, mode := range []string{"terminate", "relay"} {
			text += fmt.Sprintf("[[listener]]\nname = \"port%[1]d\"\naddress = \"%[2]s:%[1]d\"\nprotocols = "+
				"[\"bedrock\"]\nroute = \"r%[1]d\"\n"+
				"[[route]]\nname = \"r%[1]d\"\nupstream = \"u%[1]d\"\nmode = %[3]q\n"+
				"[[upstream]]\nname = \"u%[1]d\"\nprotocol = \"bedrock\"\nservers = [\"%[4]s:19132\"]\n%[5]s\n",
				7000+10*i+j, address, mode, server, map[bool]string{true: `sources = ["players"]`}[transparent])
		}
	}
	return text
}

// TestTransparentMode shows each server every client's own address, over both kinds of routes and both address
// families, before and after a reload. After the clients' end nothing of it remains.
func TestTransparentMode(t *testing.T) {
	c := openCrossing(t)
	accepts := []<-chan *gork.Conn{raknetAt(t, c.server, "10.1.0.2:19132"), raknetAt(t, c.server, "[fd00:1::2]:19132")}
	var p *process
	c.host.Do(func() { p = startProcess(t, transparentConfig(true)) })
	var clients, theirs []*gork.Conn
	for i, address := range []string{"203.0.113.1", "2001:db8::1"} {
		for j := range 2 {
			client, accepted := c.join(t, netip.AddrPortFrom(netip.MustParseAddr(address), uint16(7000+10*i+j)), accepts[i])
			if accepted.RemoteAddr().String() != client.LocalAddr().String() {
				t.Fatalf("the server sees %v, want %v", accepted.RemoteAddr(), client.LocalAddr())
			}
			clients, theirs = append(clients, client), append(theirs, accepted)
		}
	}
	if c.foreign(t) == nil {
		t.Error("no socket has a client's address")
	}
	p.rewrite(t, transparentConfig(false))
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.await(t, "configuration reloaded")
	for i := range clients {
		talk(t, clients[i], theirs[i], "after a reload")
		talk(t, theirs[i], clients[i], "and back")
	}
	late, accepted := c.join(t, netip.MustParseAddrPort("203.0.113.1:7000"), accepts[0])
	if from := accepted.RemoteAddr().(*net.UDPAddr).IP.String(); from != "10.1.0.1" {
		t.Errorf("with transparent mode off, the server sees the client as %s", from)
	}
	for _, client := range append(clients, late) {
		_ = client.Close()
	}
	p.kickAll(t) // relayed sessions have no goodbye
	await.Nil(t, func() error { return c.foreign(t) })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// join connects a client that exchanges messages with the server. It returns both ends of the connection.
func (c *crossing) join(t *testing.T, to netip.AddrPort, accepts <-chan *gork.Conn) (client, accepted *gork.Conn) {
	t.Helper()
	client, err := gork.Dialer{UpstreamDialer: machine{c.clients}}.DialTimeout(to.String(), await.Patience)
	if err != nil {
		t.Fatalf("%v: %v", to, err)
	}
	t.Cleanup(func() { _ = client.Close() })
	select {
	case accepted = <-accepts:
	case <-time.After(await.Patience):
		t.Fatal("the server has not accepted the client")
	}
	for _, text := range []string{"hello", "again", "and again"} {
		talk(t, client, accepted, text)
		talk(t, accepted, client, text)
	}
	return client, accepted
}

// talk sends a text from one end of a connection to the other.
func talk(t *testing.T, from, to *gork.Conn, text string) {
	t.Helper()
	said := append([]byte{0xfe}, text...)
	if _, err := from.Write(said); err != nil {
		t.Fatal(err)
	}
	type heard struct {
		text []byte
		err  error
	}
	came := make(chan heard, 1)
	go func() {
		b, err := to.ReadPacket() // go-raknet has no deadlines
		came <- heard{b, err}
	}()
	select {
	case h := <-came:
		if h.err != nil || !bytes.Equal(h.text, said) {
			t.Fatalf("%q came as %q, %v", said, h.text, h.err)
		}
	case <-time.After(await.Patience):
		t.Fatalf("%q did not come", said)
	}
}

// kickAll ends all sessions.
func (p *process) kickAll(t *testing.T) {
	t.Helper()
	_, list, _ := tidegate(t, "sessions", "list", "--json", "-c", p.file)
	for line := range strings.Lines(list) {
		var session struct{ ID string }
		if err := json.Unmarshal([]byte(line), &session); err != nil {
			t.Fatal(err)
		}
		// The session may have ended meanwhile; the check for remaining sessions counts.
		_, _, _ = tidegate(t, "sessions", "kick", "-c", p.file, session.ID)
	}
}

// foreign returns an error if a socket of Tidegate's machine has a client's address.
func (c *crossing) foreign(t *testing.T) error {
	t.Helper()
	var out []byte
	var err error
	c.host.Do(func() {
		out, err = exec.Command("ss", "-Hnau", "src 203.0.113.7 or src [2001:db8::7]").CombinedOutput()
	})
	if err != nil {
		t.Fatalf("ss: %v: %s", err, out)
	}
	if len(out) > 0 {
		return fmt.Errorf("sockets have clients' addresses:\n%s", out)
	}
	return nil
}
