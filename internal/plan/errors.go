package plan

// Gap is offsets of a topic partition that no segment holds and no broker has.
type Gap struct {
	Partition int32 `json:"partition"`
	Offsets   Range `json:"offsets"`
	// After and Before are the segments beside it; empty where there is none.
	After  string `json:"after,omitempty"`
	Before string `json:"before,omitempty"`
}
