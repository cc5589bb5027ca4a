package step

// Where things lie under a run; see the package comment.
const (
	requestKey   = "request.json"
	planKey      = "plan.json"
	cutKey       = "cut.json"
	candidateKey = "candidate.json"
	tagsKey      = "etags.json"
	verdictKey   = "verdict.json"
	accountKey   = "account.json"
)
