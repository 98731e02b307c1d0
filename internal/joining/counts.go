package joining

// Requests that became no join count beside the stages of joins.
const (
	Limited   = Lost + 1 + iota // a limit, a ban or a drain has refused it
	Malformed                   // no client of NetherNet sends it
	Foreign                     // another node has answered it, as a server that this node cannot be
	stages
)

var stageNames = [stages]string{
	"asked", "answered", "admitted", "refused", "failed", "never-came", "ended", "lost", "limited", "malformed",
	"foreign",
}

// Name returns the stage as metrics have it.
func (s Stage) Name() string { return stageNames[s] }

// Counts are totals of joins that have reached a stage, by stage.
type Counts [stages]uint64

// Count counts a request that became no join.
func (k *Tickets) Count(s Stage) { k.counts[s].Add(1) }

// Counts returns the totals.
func (k *Tickets) Counts() (c Counts) {
	for stage := range k.counts {
		c[stage] = k.counts[stage].Load()
	}
	return c
}

// Inherit adds the totals of another process. A process of another release may have fewer stages or more.
func (k *Tickets) Inherit(counts []uint64) {
	for stage := range min(len(counts), len(k.counts)) {
		k.counts[stage].Add(counts[stage])
	}
}
