// Package saved has the parts of a saved connection that all codecs share.
//
// A codec keeps the record in files that begin with save. The struct of the record embeds a pointer to the Conn, whose
// fields have the numbers of the record in their tags, as have the fields of types that the Conn consists of:
// record.AppendAt writes them as they are. The other fields of the record's struct have what the Conn knows in another
// form. Restore checks every number against the bound that the running code holds: indexes, lengths, counts and states.
// Nothing of a record may lead to a panic, to a loop without end, or to more memory than a peer could take.
package saved

import (
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/internal/record"
)

// ReadAt opens a record of the given kind and version, and reads it into v, as record.ReadAt does. Errors wrap
// codec.ErrSaved.
func ReadAt(now time.Time, b []byte, kind string, version int, v interface {
	Is(kind string, version int) error
}) error {
	err := record.ReadAt(now, b, v)
	if err == nil {
		err = v.Is(kind, version)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", codec.ErrSaved, err)
	}
	return nil
}

// Fault returns an error about a record that is readable and breaks a bound. what names the field.
func Fault(what string, value any) error {
	return fmt.Errorf("%w: %s is %v", codec.ErrSaved, what, value)
}

// Duration checks a duration that is saved as it is: from 0 to an hour.
func Duration(what string, d time.Duration) error {
	if d < 0 || d > time.Hour {
		return Fault(what, d)
	}
	return nil
}
