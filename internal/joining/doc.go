// Package joining has the joins of NetherNet's clients between their HTTP request and the end of their sessions. It has
// no I/O and no clock. docs/protocols/nethernet.md has the wire.
//
// A Ticket is what remains of a join: the names and passwords by which a client's first datagrams are known, and the
// address of the server that waits for them. Tickets (tickets.go) is the table that package signalling fills and that
// loops read. Join (join.go) is what the log is told, and save.go has the records for a successor.
package joining
