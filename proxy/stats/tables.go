package stats

// Table is a table that clients or servers can make grow. Each has a bound.
type Table uint8

// Tables.
const (
	TableSessions Table = iota // sessions
	TableTimers                // sessions that will wake at a deadline
	TableClosing               // closing connections
	TableLimited               // addresses and networks for which limits count
	TableHolders               // addresses that hold memory, by loop
	TablePaths                 // ways to servers
	TableParked                // relayed datagrams that wait for their way
	TableWaiting               // sessions that wait for a server
	TableDebts                 // addresses and networks that have used limits at other nodes of a fleet
	TablePresence              // clients that have named themselves
	TablePlaces                // addresses and networks whose sessions are counted
	TableCount
)

var tableNames = [TableCount]string{
	"sessions", "timers", "closing", "limited", "holders", "paths", "parked", "waiting", "debts",
	"presence", "places",
}

// String returns the table's name, as in metrics.
func (t Table) String() string { return tableNames[t] }

// Tables are the numbers of entries in all tables.
type Tables [TableCount]int

// Add adds the entries of another Relay.
func (t *Tables) Add(o *Tables) {
	for i, n := range o {
		t[i] += n
	}
}
