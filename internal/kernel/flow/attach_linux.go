package flow

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// attach puts the program on an interface, unless it is there.
func (t *Table) attach(device int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attached[device] != nil {
		return nil
	}
	found, err := netlink.LinkByIndex(device)
	if err != nil {
		return err
	}
	if kind := found.Attrs().EncapType; kind != "ether" && kind != "loopback" {
		return fmt.Errorf("%s has no Ethernet headers (%s)", found.Attrs().Name, kind)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device, Program: t.program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return err
	}
	t.attached[device] = l
	return nil
}

// forget deletes the flows that a network change affects, and detaches the program from a removed interface.
func (t *Table) forget(c change) {
	if c.gone {
		t.detach(c.device)
	}
	deleted := false
	for _, k := range t.affected(&c) {
		deleted = t.remove(k) || deleted
	}
	if deleted {
		t.changes.Add(1)
	}
}

// batchSize is the number of entries per system call: more than ever share a bucket of the map.
const batchSize = 1024

// affected returns the keys of the entries that a change affects.
func (t *Table) affected(c *change) (found []key) {
	keys, entries := make([]key, batchSize), make([]entry, batchSize)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.flows.BatchLookup(&cursor, keys, entries, nil)
		for i := range n {
			if c.affects(&keys[i], &entries[i]) {
				found = append(found, keys[i])
			}
		}
		if err != nil { // ebpf.ErrKeyNotExist: the last batch
			return found
		}
	}
}

func (t *Table) detach(device int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.attached[device]; l != nil {
		_ = l.Close()
		delete(t.attached, device)
	}
}
