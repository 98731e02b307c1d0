package config

import "fmt"

// Record configures the black boxes, which keep the last datagrams of all sessions.
type Record struct {
	// age of the oldest datagram that is kept; 0: nothing is recorded
	Last   Duration `toml:"last" min:"0s" max:"10m"`
	Memory Size     `toml:"memory" min:"4MiB" max:"16GiB"` // of all loops together
	// for files of sessions that end in an abnormal way; empty: none are saved
	Directory string `toml:"directory"`
	Files     int    `toml:"files" min:"1" max:"10000"`           // number of files in the directory
	FilesSize Size   `toml:"files_size" min:"1MiB" max:"1024GiB"` // of all files in the directory together
}

func defaultRecord() Record { return Record{Memory: 64 * MiB, Files: 100, FilesSize: 256 * MiB} }

func (v *validator) record() {
	r := v.Record
	if r.Directory != "" && r.Last == 0 {
		v.warn("record.directory", r.Directory, fmt.Sprintf("record.last above %q: nothing is recorded", "0s"))
	}
}
