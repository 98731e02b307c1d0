package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// transferByPeer makes a transfer by the program Options.Peer, which carries the messages over QUIC
// (interop/peers/bulk). It runs once as the server and once as the client:
//
//	PEER server ADDRESS MESSAGES SIZE RATE
//	PEER client ADDRESS MESSAGES SIZE
//
// The client writes "joined", waits for a line, and then asks for the messages. At the end it writes their time in
// nanoseconds.
func (b *bulkBench) transferByPeer(seed uint64) (r bulkRound, err error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return r, err
	}
	messages, size := fmt.Sprint(b.Messages), fmt.Sprint(b.Size)
	ctx, cancel := context.WithTimeout(b.Context, bulkPatience)
	defer cancel()
	server := exec.CommandContext(ctx, b.Peer, "server", addr.String(), messages, size, fmt.Sprint(b.Rate))
	if err := server.Start(); err != nil {
		return r, err
	}
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	path, err := startBulkPath(b.Options, addr, seed)
	if err != nil {
		return r, err
	}
	defer path.stop()
	client := exec.CommandContext(ctx, b.Peer, "client", path.addr().String(), messages, size)
	in, err := client.StdinPipe()
	if err != nil {
		return r, err
	}
	out, err := client.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := client.Start(); err != nil {
		return r, err
	}
	defer func() { _, _ = client.Process.Kill(), client.Wait() }()
	answers := json.NewDecoder(out)
	var joined string
	if err := answers.Decode(&joined); err != nil {
		return r, fmt.Errorf("join: %w", err)
	}
	path.begin()
	if _, err := fmt.Fprintln(in); err != nil {
		return r, err
	}
	var took time.Duration
	if err := answers.Decode(&took); err != nil {
		return r, fmt.Errorf("%w: %w", errBulk, err)
	}
	r.took = took
	r.datagrams, _ = path.counts()
	return r, nil
}
