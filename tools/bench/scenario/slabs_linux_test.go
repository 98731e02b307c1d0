package scenario

import "testing"

func TestSlabs(t *testing.T) {
	const caches = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab>\n" +
		"UDP 10 24 1344 24\nproc_inode_cache 90 100 696 23\ndentry 500 600 192 21\n"
	if got := procEntries(caches); got != 100*(696+192) {
		t.Errorf("entries of /proc take %d bytes", got)
	}
	if got := procEntries("nothing of the kind\n"); got != 0 {
		t.Errorf("an unknown format: %d bytes", got)
	}
	if got, err := slabs("MemTotal: 7 kB\nSlab:  12 kB\nSReclaimable: 3 kB\n"); got != 12<<10 || err != nil {
		t.Errorf("%d bytes, %v", got, err)
	}
	if _, err := slabs("MemTotal: 7 kB\n"); err == nil {
		t.Error("slabs without a line for them")
	}
	if n, err := kernelMemory(); n < 1<<20 || err != nil {
		t.Errorf("kernel memory is %d bytes, %v", n, err)
	}
}
