package flow

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// attach puts the program on an interface that does not have it.
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

// forget deletes the flows that a change in the network concerns, and the program's place on an interface that is gone.
func (t *Table) forget(c change) {
	if c.gone {
		t.detach(c.device)
	}
	deleted := false
	for _, k := range t.concerned(&c) {
		deleted = t.remove(k) || deleted
	}
	if deleted {
		t.changes.Add(1)
	}
}

// atOnce is how many entries are read with one system call: more than will ever share a bucket of the map.
const atOnce = 1024

// concerned are the keys of the entries that a change concerns.
func (t *Table) concerned(c *change) (found []key) {
	keys, entries := make([]key, atOnce), make([]entry, atOnce)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.flows.BatchLookup(&cursor, keys, entries, nil)
		for i := range n {
			if c.concerns(&keys[i], &entries[i]) {
				found = append(found, keys[i])
			}
		}
		if err != nil { // ebpf.ErrKeyNotExist: these were the last
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
