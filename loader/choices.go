package loader

import "github.com/khop-gnn/khop/internal/enum"

// HostPages says on which pages of host memory a device reads columns that its memory does not have.
type HostPages uint8

const (
	// PagesByLadder takes the best rung of the ladder, which is the file's own pages wherever the driver registers
	// them: a copy reads all of the column first, and takes as much memory again.
	PagesByLadder HostPages = iota
	// PagesMeasured gathers random rows of a part of each column in New, from the file's own pages and from a copy on
	// huge pages, and copies the column where that is faster by more than a tenth and memory allows it. Columns below
	// 64 MiB, and those that another placed source of the process has attached, are taken as PagesByLadder does.
	PagesMeasured
)

var hostPages = []string{"ladder", "measured"}

// String returns the name on the command line.
func (p HostPages) String() string { return enum.Name(hostPages, p) }

// Sharing says how devices that reach each other's memory keep hot rows.
type Sharing uint8

const (
	// ShareAuto keeps as many of the hottest rows on each device, and deals as many of the next among them, as
	// should take least time by what copies between the devices and from the host took when they were placed.
	ShareAuto Sharing = iota
	// ShareNone keeps the same rows on each device.
	ShareNone
	// ShareAll keeps each row on one device alone, where the others read it. Devices that reach no other are an error.
	ShareAll
)

var sharings = []string{"auto", "none", "all"}

// String returns the name on the command line.
func (s Sharing) String() string { return enum.Name(sharings, s) }
