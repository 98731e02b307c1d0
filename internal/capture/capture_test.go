package capture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"tidegate/internal/capture"
	"tidegate/proxy/relay/recording"
)

// at is the time of the test's datagrams, to the nanosecond.
var at = time.Unix(1_700_000_000, 123_456_789)

func between(from, to string, payload string) recording.Captured {
	return recording.Captured{
		At: at, From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to), Bytes: []byte(payload),
	}
}

// file writes a catch to a file.
func file(t testing.TB, c *recording.Catch) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, "1.2.3", "session=c")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packet is a packet as a reader sees it.
type packet struct {
	gopacket.Packet
	about pcapgo.NgPacketOptions
	info  gopacket.CaptureInfo
}

func read(t *testing.T, file []byte) (*pcapgo.NgReader, []packet) {
	t.Helper()
	reader, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var all []packet
	for {
		data, info, about, err := reader.ReadPacketDataWithOptions()
		if err == io.EOF {
			return reader, all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, packet{gopacket.NewPacket(data, reader.LinkType(), gopacket.Default), about, info})
	}
}

// checkSums checks that the packet's checksums match its bytes.
func (p packet) checkSums(t *testing.T) {
	t.Helper()
	transport := p.TransportLayer().(interface {
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	})
	if err := transport.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
		t.Fatal(err)
	}
	if err, faults := p.VerifyChecksums(); err != nil || len(faults) > 0 {
		t.Errorf("wrong checksums %v, %v, of %v", faults, err, p)
	}
}

// TestWriter reads back a file with gopacket: addresses, checksums, times, sides, directions and sessions.
func TestWriter(t *testing.T) {
	all := []recording.Captured{
		between("192.0.2.1:5000", "192.0.2.9:7777", "hello"),
		between("[2001:db8::9]:7777", "[2001:db8::1]:5000", "odd"),
		between("[::]:7777", "192.0.2.1:5000", strings.Repeat("large", 800)),
		between("[::ffff:10.0.0.1]:40000", "10.0.0.5:19132", ""),
		between("0.0.0.0:7777", "[2001:db8::1]:5000", "x"),
	}
	all[1].Sent, all[1].Session = true, 12
	all[3].Sent, all[3].Upstream = true, true
	catch := &recording.Catch{Captured: all}
	catch.LeftOut.Upstreams = 7
	reader, got := read(t, file(t, catch))
	if len(got) != len(all) {
		t.Fatalf("%d packets, want %d", len(got), len(all))
	}
	for i, p := range got {
		udp, ok := p.TransportLayer().(*layers.UDP)
		if !ok || p.ErrorLayer() != nil || !bytes.Equal(udp.Payload, all[i].Bytes) || !p.info.Timestamp.Equal(at) {
			t.Fatalf("packet %d is %v", i, p)
		}
		p.checkSums(t)
	}
	if flow := got[2].NetworkLayer().NetworkFlow().String(); flow != "0.0.0.0->192.0.2.1" {
		t.Errorf("from a socket at all addresses: %s", flow)
	}
	if flow := got[3].NetworkLayer().NetworkFlow().String(); flow != "10.0.0.1->10.0.0.5" {
		t.Errorf("IPv4 in IPv6's spelling: %s", flow)
	}
	if flow := got[4].NetworkLayer().NetworkFlow().String(); flow != "::->2001:db8::1" {
		t.Errorf("from a socket at all addresses: %s", flow)
	}
	in, out := got[0].about, got[1].about
	if in.Flags.Direction != pcapgo.NgEpbFlagDirectionInbound || len(in.Comments) != 0 ||
		out.Flags.Direction != pcapgo.NgEpbFlagDirectionOutbound || !slices.Equal(out.Comments, []string{"session c"}) {
		t.Errorf("options %+v and %+v", in, out)
	}
	for i, name := range []string{capture.ClientInterface, capture.UpstreamInterface} {
		if face, err := reader.Interface(i); err != nil || face.Name != name {
			t.Errorf("interface %d is %+v, %v", i, face, err)
		}
	}
	face, _ := reader.Interface(1)
	if s := face.Statistics; got[3].info.InterfaceIndex != 1 || s.PacketsDropped != 7 || s.PacketsReceived != 8 {
		t.Errorf("interface %d of the server's packet, statistics %+v", got[3].info.InterfaceIndex, face.Statistics)
	}
	if about := reader.SectionInfo(); about.Application != "tidegate 1.2.3" || about.Comment != "session=c" {
		t.Errorf("the file is about %+v", about)
	}
}

// TestStreams checks that frames become consecutive segments, in both directions.
func TestStreams(t *testing.T) {
	client, listener := "192.0.2.1:5000", "192.0.2.9:7777"
	all := []recording.Captured{between(client, listener, "abc"), between(listener, client, "de"),
		between(client, listener, "f")}
	for i := range all {
		all[i].Stream = true
	}
	_, got := read(t, file(t, &recording.Catch{Captured: all}))
	want := [][2]uint32{{0, 0}, {0, 3}, {3, 2}}
	for i, p := range got {
		tcp := p.TransportLayer().(*layers.TCP)
		if tcp.Seq != want[i][0] || tcp.Ack != want[i][1] || !bytes.Equal(tcp.Payload, all[i].Bytes) {
			t.Errorf("segment %d: %v", i, p)
		}
		p.checkSums(t)
	}
}

// TestManyStreams checks that beyond the bound, counting starts anew.
func TestManyStreams(t *testing.T) {
	w, err := capture.NewWriter(io.Discard, "", "")
	if err != nil {
		t.Fatal(err)
	}
	c := between("192.0.2.1:1", "192.0.2.9:7777", "x")
	c.Stream = true
	write := func(n int) {
		c.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 16), byte(n >> 8)}), uint16(n&0xff+1))
		if err := w.Write(&recording.Catch{Captured: []recording.Captured{c}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range capture.MaxFlows {
		write(n)
	}
	if n := w.Flows(); n != capture.MaxFlows {
		t.Errorf("%d flows are counted", n)
	}
	if write(0); w.Flows() != capture.MaxFlows {
		t.Errorf("a known flow restarted the counting: %d", w.Flows())
	}
	if write(capture.MaxFlows); w.Flows() != 1 {
		t.Errorf("beyond the bound %d flows are counted", w.Flows())
	}
}

// TestCopy checks that Copy passes on the whole file or stops at a limit, and that its output can always be opened.
func TestCopy(t *testing.T) {
	catch := &recording.Catch{}
	for range 10 {
		catch.Captured = append(catch.Captured, between("192.0.2.1:5000", "192.0.2.9:7777", "hello"))
	}
	catch.LeftOut.Clients, catch.LeftOut.Upstreams = 3, 4
	whole := file(t, catch)
	lastBlock := len(whole) - int(binary.LittleEndian.Uint32(whole[len(whole)-4:]))
	for _, c := range []struct {
		what    string
		from    []byte
		limits  capture.Limits
		packets int
		leftOut uint64
		err     error
	}{
		{"all", whole, capture.Limits{}, 10, 7, nil},
		{"limits that are not reached", whole, capture.Limits{Datagrams: 11, Bytes: 1 << 20}, 10, 7, nil},
		{"three datagrams", whole, capture.Limits{Datagrams: 3}, 3, 0, nil},
		{"one byte too few", whole, capture.Limits{Bytes: int64(len(whole)) - 1}, 10, 3, nil},
		{"cut in a block", whole[:len(whole)-1], capture.Limits{}, 10, 3, io.ErrUnexpectedEOF},
		{"cut in a head", whole[:lastBlock+5], capture.Limits{}, 10, 3, io.ErrUnexpectedEOF},
		{"nothing", nil, capture.Limits{}, 0, 0, nil},
	} {
		var b bytes.Buffer
		got, err := capture.Copy(&b, bytes.NewReader(c.from), c.limits)
		if err != c.err || got.Datagrams != uint64(c.packets) || got.LeftOut != c.leftOut || got.Bytes != int64(b.Len()) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
		if len(c.from) == 0 {
			continue
		}
		if _, packets := read(t, b.Bytes()); len(packets) != c.packets || !bytes.HasPrefix(whole, b.Bytes()) {
			t.Errorf("%s: a file of %d packets", c.what, len(packets))
		}
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCopyFails(t *testing.T) {
	said := between("192.0.2.1:5000", "192.0.2.9:7777", "hello")
	whole := file(t, &recording.Catch{Captured: []recording.Captured{said}})
	if _, err := capture.Copy(full{}, bytes.NewReader(whole), capture.Limits{}); err != errFull {
		t.Errorf("to a full disk: %v", err)
	}
	for what, from := range map[string][]byte{
		"no section":     []byte("GET / HTTP/1.1\r\n\r\n"),
		"a long block":   append(slices.Clone(whole), 6, 0, 0, 0, 0, 0, 0, 0x10),
		"a short block":  append(slices.Clone(whole), 6, 0, 0, 0, 8, 0, 0, 0),
		"an odd block":   append(slices.Clone(whole), 6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0),
		"another length": append(slices.Clone(whole), 6, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0),
	} {
		_, err := capture.Copy(io.Discard, bytes.NewReader(from), capture.Limits{})
		if err == nil || !strings.Contains(err.Error(), "not a capture") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzCopy checks that, for any input, the output is a prefix of the input in whole blocks.
func FuzzCopy(f *testing.F) {
	catch := &recording.Catch{Captured: []recording.Captured{between("192.0.2.1:5000", "192.0.2.9:7777", "hello")}}
	catch.LeftOut.Clients = 3
	f.Add(file(f, catch))
	f.Fuzz(func(t *testing.T, from []byte) {
		var b bytes.Buffer
		got, err := capture.Copy(&b, bytes.NewReader(from), capture.Limits{})
		if !bytes.HasPrefix(from, b.Bytes()) || got.Bytes != int64(b.Len()) || err == nil && b.Len() != len(from) {
			t.Fatalf("%d of %d bytes, %+v, %v", b.Len(), len(from), got, err)
		}
		again, err := capture.Copy(io.Discard, bytes.NewReader(b.Bytes()), capture.Limits{})
		if err != nil || again != got {
			t.Fatalf("once more: %+v, %v; before %+v", again, err, got)
		}
	})
}

// TestRotation divides a capture by size and by time. Each file can be opened alone. Together they have each datagram
// once, in order.
func TestRotation(t *testing.T) {
	catch := new(recording.Catch)
	for i := range 40 {
		c := between("192.0.2.1:5000", "192.0.2.9:7777", strings.Repeat(string(rune('A'+i)), 100))
		c.At = at.Add(time.Duration(i) * time.Second)
		catch.Captured = append(catch.Captured, c)
	}
	catch.LeftOut.Clients = 3
	whole := file(t, catch)
	for name, c := range map[string]struct {
		rotation capture.Rotation
		most     int // datagrams in a file
	}{
		"size": {capture.Rotation{Bytes: 1000}, 5},
		"time": {capture.Rotation{Every: 7 * time.Second}, 7},
		"both": {capture.Rotation{Bytes: 1000, Every: 3 * time.Second}, 3},
		// a file has at least one datagram
		"tiny": {capture.Rotation{Bytes: 1}, 1},
	} {
		files := []*bytes.Buffer{new(bytes.Buffer)}
		var begun []time.Time
		c.rotation.Next = func(at time.Time) (io.Writer, error) {
			begun, files = append(begun, at), append(files, new(bytes.Buffer))
			return files[len(files)-1], nil
		}
		totals, err := capture.Copy(files[0], bytes.NewReader(whole), capture.Limits{Rotation: c.rotation})
		if err != nil || totals.Datagrams != 40 || totals.LeftOut != 3 {
			t.Fatalf("%s: %+v, %v", name, totals, err)
		}
		var all []packet
		bytesOfAll := 0
		for i, f := range files {
			bytesOfAll += f.Len()
			reader, got := read(t, f.Bytes())
			if len(got) == 0 || len(got) > c.most || i < len(files)-1 && len(got) < c.most-1 || reader.NInterfaces() != 2 {
				t.Errorf("%s: file %d of %d has %d datagrams", name, i, len(files), len(got))
			}
			if i > 0 && !got[0].info.Timestamp.Equal(begun[i-1]) {
				t.Errorf("%s: file %d begins at %v, not %v", name, i, got[0].info.Timestamp, begun[i-1])
			}
			if c.rotation.Bytes > 1 && i < len(files)-1 && f.Len() > int(c.rotation.Bytes) {
				t.Errorf("%s: file %d has %d bytes", name, i, f.Len())
			}
			all = append(all, got...)
		}
		if int64(bytesOfAll) != totals.Bytes {
			t.Errorf("%s: %d bytes, counted %d", name, bytesOfAll, totals.Bytes)
		}
		for i, p := range all {
			if !bytes.Equal(p.ApplicationLayer().Payload(), catch.Captured[i].Bytes) {
				t.Errorf("%s: datagram %d is %v", name, i, p)
			}
		}
	}
	full := errors.New("no space left")
	rotation := capture.Rotation{Bytes: 1000, Next: func(time.Time) (io.Writer, error) { return nil, full }}
	totals, err := capture.Copy(io.Discard, bytes.NewReader(whole), capture.Limits{Rotation: rotation})
	if !errors.Is(err, full) || totals.Datagrams == 0 || totals.Datagrams == 40 {
		t.Errorf("%+v, %v", totals, err)
	}
}

// TestRotationWithinLimit ends divided captures at every number of bytes. All files together stay within it, and the
// last one has a datagram.
func TestRotationWithinLimit(t *testing.T) {
	catch := new(recording.Catch)
	for i := range 12 {
		c := between("192.0.2.1:5000", "192.0.2.9:7777", strings.Repeat("a", 100))
		c.At = at.Add(time.Duration(i) * time.Second)
		catch.Captured = append(catch.Captured, c)
	}
	whole := file(t, catch)
	for limit := int64(1000); limit < int64(len(whole))+1000; limit += 4 {
		present, sum := new(bytes.Buffer), 0
		rotation := capture.Rotation{Bytes: 1000, Next: func(time.Time) (io.Writer, error) {
			sum += present.Len()
			present.Reset()
			return present, nil
		}}
		totals, err := capture.Copy(present, bytes.NewReader(whole), capture.Limits{Bytes: limit, Rotation: rotation})
		if sum += present.Len(); err != nil || int64(sum) > limit || int64(sum) != totals.Bytes {
			t.Fatalf("at %d: %d bytes, %+v, %v", limit, sum, totals, err)
		}
		if _, got := read(t, present.Bytes()); len(got) == 0 {
			t.Fatalf("at %d: the last file is empty", limit)
		}
	}
}
