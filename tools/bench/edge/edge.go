// Package edge speaks NetherNet as far as an edge can tell: joins over HTTP, checks of ICE, and records of DTLS without
// any cryptography. Start with Join and Serve.
package edge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"tidegate/codec/nethernet"
)

// Password is that of each agent.
const Password = "apasswordof32lettersandsomefigure"

// RecordHeader is the size of a record's header in bytes.
const RecordHeader = 13

const dataRecord = 23

// Ufrags returns the names of a join: the client's number makes them, so that the server need not remember any.
func Ufrags(client uint64) (server, own string) {
	return fmt.Sprintf("server%08x", client), fmt.Sprintf("client%08x", client)
}

// IsRecord reports whether a datagram is one whole record of data.
func IsRecord(datagram []byte) bool {
	return len(datagram) > RecordHeader && datagram[0] == dataRecord &&
		int(binary.BigEndian.Uint16(datagram[11:])) == len(datagram)-RecordHeader
}

// AppendRecordHeader appends the header of a record with a number and a size.
func AppendRecordHeader(b []byte, number uint64, size int) []byte {
	b = binary.BigEndian.AppendUint64(append(b, dataRecord, 0xfe, 0xfd), 1<<48|number)
	return binary.BigEndian.AppendUint16(b, uint16(size))
}

// AppendCheck appends a client's check of its path to a server.
func AppendCheck(b []byte, g *nethernet.Integrity, server, client string) []byte {
	check := nethernet.Check{To: server, From: client, Role: nethernet.Controlling, Nominates: true}
	binary.BigEndian.PutUint64(check.ID[:], rand.Uint64())
	return g.AppendCheck(b, check, Password)
}

// AppendAnswer appends the answer to a check.
func AppendAnswer(b []byte, g *nethernet.Integrity, check *nethernet.Binding) []byte {
	return g.AppendSuccess(b, check.ID, netip.MustParseAddrPort("10.0.0.1:7777"), Password)
}

// describe returns what an end says of itself over HTTP.
func describe(ufrag, setup string, at ...netip.AddrPort) []byte {
	digest := strings.Repeat("00:", 31) + "00"
	own := nethernet.Own{
		Ufrag: ufrag, Password: Password, Setup: setup, Candidates: at,
		Fingerprints: []nethernet.Fingerprint{{Algorithm: "sha-256", Digest: digest}},
	}
	return own.Text()
}

// Serve answers joins for a server at an address, until the listener closes.
func Serve(l net.Listener, at netip.AddrPort) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offer, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			return
		}
		_, ufrag, _ := strings.Cut(string(offer), "a=ice-ufrag:client")
		ufrag, _, _ = strings.Cut(ufrag, "\r")
		_, _ = w.Write(describe("server"+ufrag, "active", at))
	}))
}

// ErrTooMany is the error of a join that came too soon after others.
var ErrTooMany = errors.New("too many joins")

// Join joins over HTTP, from a client's own address. The zero Addr lets the system choose. The caller's thread may be
// in a network namespace.
func Join(ctx context.Context, local netip.Addr, to netip.AddrPort, client uint64) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	if local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	conn, err := d.DialContext(ctx, "tcp4", to.String()) // on this thread, which may have the namespace
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, own := Ufrags(client)
	offer := describe(own, "actpass")
	_, err = fmt.Fprintf(conn, "POST /v1/join/%d HTTP/1.0\r\nHost: bench\r\nContent-Type: application/sdp\r\n"+
		"Content-Length: %d\r\n\r\n%s", client, len(offer), offer)
	answer, failed := io.ReadAll(conn)
	switch err = errors.Join(err, failed); {
	case err != nil, strings.Contains(string(answer), "a=ice-ufrag:server"):
		return err
	case strings.Contains(string(answer[:min(len(answer), 20)]), " 429 "):
		return ErrTooMany
	}
	return fmt.Errorf("answer %.40q", answer)
}
