package decode

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// TestOwnCaptures reads the sender and the session of packets from a file of our own command. A file of another
// program with the same names has neither.
func TestOwnCaptures(t *testing.T) {
	in, out := pcapgo.NgEpbFlagDirectionInbound, pcapgo.NgEpbFlagDirectionOutbound
	for _, c := range []struct {
		application string
		face        int
		direction   pcapgo.NgEpbFlag
		want        side
	}{
		{"tidegate 1.2.3", 0, in, clientSide},
		{"tidegate 1.2.3", 0, out, serverSide},
		{"tidegate 1.2.3", 1, in, serverSide},
		{"tidegate 1.2.3", 1, out, clientSide},
		{"tidegate 1.2.3", 1, pcapgo.NgEpbFlagDirectionUnknown, anySide},
		{"dumpcap", 1, in, anySide},
	} {
		var file bytes.Buffer
		about := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: c.application}}
		w, err := pcapgo.NewNgWriterInterface(&file, pcapgo.NgInterface{Name: "client", LinkType: layers.LinkTypeRaw}, about)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.AddInterface(pcapgo.NgInterface{Name: "upstream", LinkType: layers.LinkTypeRaw}); err != nil {
			t.Fatal(err)
		}
		packet := udpPacket(clientAddr, serverAddr, []byte("x"))
		at := info(0, packet)
		at.InterfaceIndex = c.face
		options := pcapgo.NgPacketOptions{Comments: []string{"session c", "odd"},
			Flags: &pcapgo.NgEpbFlags{Direction: c.direction}}
		if err := w.WritePacketWithOptions(at, packet, options); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var got []side
		if err := readRecords(&file, 0, func(r *record) error {
			got = append(got, r.side)
			if r.note != "session c; odd" {
				t.Errorf("note %q", r.note)
			}
			return nil
		}); err != nil || !slices.Equal(got, []side{c.want}) {
			t.Errorf("%+v: sides %v, %v", c, got, err)
		}
	}
}
