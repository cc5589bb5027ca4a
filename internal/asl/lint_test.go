package asl

import (
	"strings"
	"testing"
)

// TestLint has definitions that AWS accepts, and what is found in each: rule and path. The backfill's own definition, and
// what would be found in variants of it, are in package infra.
func TestLint(t *testing.T) {
	const retry = `,"Retry":[{"ErrorEquals":["States.ALL"]}]`
	invoke := func(members string) string {
		return `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":60` + retry + members + `}}}`
	}
	for _, c := range []struct{ definition, want string }{
		{invoke(`,"Parameters":{"FunctionName":"f"},"OutputPath":"$.Payload","End":true`), ""},
		{invoke(`,"Parameters":{"FunctionName":"f"},"ResultPath":null,"End":true`), ""},
		{invoke(`,"Parameters":{"FunctionName":"arn:aws-cn:lambda:cn-north-1:123456789012:function:f:$LATEST"},"ResultPath":null,"End":true`), ""},
		{invoke(`,"Parameters":{"FunctionName":"arn:aws:s3:::f"},"ResultPath":null,"End":true`), "resource-form /States/A/Parameters/FunctionName"},
		{invoke(`,"Parameters":{"FunctionName":"f"},"OutputPath":"$","End":true`), "payload-growth /States/A"},
		{invoke(`,"Parameters":{"FunctionName":"f","Payload":[{"t.$":"States.Array($$.Task.Token)"}]},"ResultPath":null,"End":true`), "resource-form /States/A/Resource"},
		{task(""), "missing-timeout /States/A|resource-form /States/A/Resource|missing-retry /States/A/Retry"},
		{task(`,"TimeoutSeconds":5,"Parameters":{"FunctionName":"f"}` + retry), "resource-form /States/A/Parameters"},
		{ // a retrier that never retries, and one for tasks
			task(`,"TimeoutSeconds":5,"Retry":[{"ErrorEquals":["Lambda.ServiceException"],"MaxAttempts":0},{"ErrorEquals":["States.TaskFailed"]}]`),
			"resource-form /States/A/Resource",
		},
		{distributed(""), "missing-label /States/A/Label|payload-growth /States/A/ResultWriter"},
		{
			distributed(`,"Label":"A","ToleratedFailureCount":0,"ToleratedFailurePercentagePath":"$.p","ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":"s3://b"}}`),
			"resource-form /States/A/ResultWriter/Parameters/Bucket|forfeits-redrive /States/A/ToleratedFailurePercentage",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Parallel","End":true,"Branches":[{"StartAt":"B","States":{"B":{"Type":"Pass","End":true}}}],
				"Catch":[{"ErrorEquals":["X"],"Next":"C"},{"ErrorEquals":["Y"],"Next":"D"}]},"C":{"Type":"Fail"},"D":{"Type":"Succeed"}}}`,
			"payload-growth /States/A|forfeits-redrive /States/A/Catch/0",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Map","ResultSelector":{},"End":true,"ItemProcessor":{"StartAt":"B","States":{"B":{"Type":"Pass","ResultPath":"$.b","End":true}}}}}}`,
			"",
		},
		{ // in a loop: an input within the input, by a path, by a call and by ResultPath
			`{"StartAt":"A","States":{"A":{"Type":"Pass","Parameters":{"a":[{"b.$":"$"}]},"Next":"B"},"B":{"Type":"Pass","Parameters":{"a.$":"States.Array($)"},"Next":"C"},
				"C":{"Type":"Pass","ResultPath":"$.c","Next":"D"},"D":{"Type":"Pass","Result":1,"ResultPath":"$.d","Next":"E"},"E":{"Type":"Pass","Parameters":{"e.$":"$.e"},"Next":"A"}}}`,
			"payload-growth /States/A|payload-growth /States/B|payload-growth /States/C",
		},
	} {
		var got []string
		for _, f := range mustParse(t, c.definition).Lint() {
			got = append(got, f.Rule+" "+f.Path)
			if f.Text == "" {
				t.Errorf("%s %s says nothing", f.Rule, f.Path)
			}
		}
		wantText(t, c.definition, strings.Join(got, "|"), c.want)
	}
}
