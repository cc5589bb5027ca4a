package asl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// pass is a machine of one Pass state with further members.
func pass(members string) string {
	return `{"StartAt":"A","States":{"A":{"Type":"Pass","End":true` + members + `}}}`
}

func task(members string) string {
	return `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","End":true` + members + `}}}`
}

func distributed(members string) string {
	return `{"StartAt":"A","States":{"A":{"Type":"Map","End":true,"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},` +
		`"StartAt":"B","States":{"B":{"Type":"Pass","End":true}}}` + members + `}}}`
}

// TestParseRefuses has a definition and what is said of it, a line for each problem.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ definition, want string }{
		{`{`, "/: at byte 1: the definition ends here, within a value"},
		{`[]`, "/: must be an object"},
		{`{"StartAt":"A","States":{}} x`, "/: at byte 28: something follows the definition"},
		{`{}`, "/StartAt: is missing|/States: is missing"},
		{`{"StartAt":"A","States":{}}`, "/States: has no state|/: StartAt is \"A\", which is no state here"},
		{pass(`,"Foo":1`), "/States/A/Foo: unknown field"},
		{pass(`,"End":true`), "/States/A/End: there are two of this name"},
		{pass(`,"Next":"A"`), "/States/A: has both Next and End"},
		{`{"StartAt":"A","States":{"A":{"Type":"Pass"}}}`, "/States/A: has neither Next nor End: true"},
		{`{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"B"}}}`, "/States/A: Next is \"B\", which is no state here"},
		{`{"StartAt":"A","States":{"A":{"Type":"Pass","End":true},"B":{"Type":"Pass","End":true}}}`, "/States/B: no state leads here"},
		{`{"StartAt":"A","States":{"A":{"Type":"Activity","End":true}}}`, "/States/A/Type: there is no state type \"Activity\""},
		{pass(`,"QueryLanguage":"JSONata"`), "/States/A/QueryLanguage: JSONata is not supported: only JSONPath is"},
		{
			`{"QueryLanguage":"JSONata","StartAt":"A","States":{"A":{"Type":"Succeed","Output":"{% 1 %}"}}}`,
			"/QueryLanguage: JSONata is not supported: only JSONPath is|/States/A/Output: belongs to JSONata, which is not supported: write the JSONPath form",
		},
		{pass(`,"InputPath":"x"`), "/States/A/InputPath: path \"x\": a path begins with $"},
		{pass(`,"ResultPath":"$.a[*]"`), "/States/A/ResultPath: path \"$.a[*]\": a reference path has only members and elements of $"},
		{
			pass(`,"Parameters":{"a.$":1,"b":[{"c.$":"States.Nope()"}],"d":1,"d.$":"$"}`),
			"/States/A/Parameters/a.$: must be a string that is a path or an intrinsic function|" +
				"/States/A/Parameters/b/0/c.$: expression \"States.Nope()\": there is no intrinsic function States.Nope|" +
				"/States/A/Parameters/d.$: there is \"d\" as well",
		},
		{pass(`,"Assign":{"1x":1}`), "/States/A/Assign/1x: is no name of a variable: letters, digits and _, and no digit first"},
		{task(`,"Credentials":{}`), "/States/A/Credentials: is not supported: tasks run as the engine does"},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Task","End":true,"Resource":"arn:aws:states:::sqs:sendMessage"}}}`,
			"/States/A/Resource: \"arn:aws:states:::sqs:sendMessage\" is not supported: only arn:aws:states:::lambda:invoke, the same with .waitForTaskToken, and ARNs of Lambda functions are",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Task","End":true,"Resource":"arn:aws:states:::lambda:invoke","Parameters":{"Function":"f","InvocationType":"Event"}}}}`,
			"/States/A/Parameters: needs FunctionName",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Task","End":true,"Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","X":1,"InvocationType":"Event"}}}}`,
			"/States/A/Parameters/X: unknown field of lambda:invoke|/States/A/Parameters/InvocationType: Event is not supported: only RequestResponse is",
		},
		{
			task(`,"TimeoutSeconds":0,"HeartbeatSeconds":1.5`),
			"/States/A/TimeoutSeconds: must be a whole number from 1 to 99999999|/States/A/HeartbeatSeconds: must be a whole number from 1 to 99999999",
		},
		{task(`,"TimeoutSeconds":5,"TimeoutSecondsPath":"$.t"`), "/States/A/TimeoutSeconds: is given by value and by path"},
		{task(`,"TimeoutSeconds":5,"HeartbeatSeconds":5`), "/States/A/HeartbeatSeconds: must be less than TimeoutSeconds"},
		{
			task(`,"Retry":[{"ErrorEquals":["States.ALL"]},{"ErrorEquals":["X"],"MaxAttempts":-1,"BackoffRate":0.5,"JitterStrategy":"SOME","Foo":1}]`),
			"/States/A/Retry/0/ErrorEquals: States.ALL stands alone, and in the last entry|" +
				"/States/A/Retry/1/MaxAttempts: must be a whole number from 0 to 99999999|" +
				"/States/A/Retry/1/BackoffRate: must be a number from 1 to 1.7976931348623157e+308|" +
				"/States/A/Retry/1/JitterStrategy: is \"SOME\": it must be FULL or NONE|/States/A/Retry/1/Foo: unknown field",
		},
		{task(`,"Catch":[{"Next":"Z"}]`), "/States/A/Catch/0/ErrorEquals: is missing|/States/A/Catch/0: Next is \"Z\", which is no state here"},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Wait","End":true,"Seconds":1,"Timestamp":"2020-01-01"}}}`,
			"/States/A/Timestamp: \"2020-01-01\" is not of the form 2006-01-02T15:04:05Z|/States/A: needs one of Seconds, SecondsPath, Timestamp and TimestampPath",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{"Variable":"$.x","StringEquals":1,"IsNull":true,"Next":"B"},{"IsString":true,"Next":"B"},{"Next":"B"}]},"B":{"Type":"Succeed","Next":"A"}}}`,
			"/States/A/Choices/0/StringEquals: must be a string|/States/A/Choices/0: needs one of And, Or, Not and a comparison; it has 2|" +
				"/States/A/Choices/1/Variable: is missing|/States/A/Choices/2: needs one of And, Or, Not and a comparison; it has 0|/States/B/Next: unknown field",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{"Variable":"$.x","StringMatchesPath":"$.y","Next":"B"}]},"B":{"Type":"Succeed"}}}`,
			"/States/A/Choices/0: needs one of And, Or, Not and a comparison; it has 0|/States/A/Choices/0/StringMatchesPath: unknown field|/States/A/Choices/0/Variable: unknown field",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Parallel","End":true,"Branches":[{"StartAt":"A","States":{"A":{"Type":"Succeed"}},"X":1}]}}}`,
			"/States/A/Branches/0/States/A: there is a state of this name at /States/A: names are unique in a machine|/States/A/Branches/0/X: unknown field",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Map","End":true,"Label":"x","ItemProcessor":{"StartAt":"B","States":{"B":{"Type":"Succeed"}}}}}}`,
			"/States/A/Label: needs ItemProcessor.ProcessorConfig.Mode DISTRIBUTED",
		},
		{
			`{"StartAt":"A","States":{"A":{"Type":"Map","End":true,"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"EXPRESS"},"StartAt":"B","States":{"B":{"Type":"Succeed"}}}}}}`,
			"/States/A/ItemProcessor/ProcessorConfig/ExecutionType: \"EXPRESS\" is not supported: only STANDARD is",
		},
		{
			distributed(`,"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"PARQUET"},"Parameters":{"Bucket":"b","VersionId":"v"}}`),
			"/States/A/ItemReader/Parameters/VersionId: unknown field|/States/A/ItemReader/Parameters/Key: is missing|" +
				"/States/A/ItemReader/ReaderConfig/InputType: \"PARQUET\" is not supported: only CSV, JSON and JSONL are",
		},
		{
			distributed(`,"ItemReader":{"Resource":"arn:aws:states:::s3:listObjectsV2","ReaderConfig":{"Transformation":"LOAD_AND_FLATTEN"},"Parameters":{"Bucket":"b"}}`),
			"/States/A/ItemReader/ReaderConfig/Transformation: is not supported: objects that are listed are not read",
		},
		{
			distributed(`,"ItemBatcher":{},"ResultWriter":{}`),
			"/States/A/ItemBatcher: needs MaxItemsPerBatch or MaxInputBytesPerBatch|/States/A/ResultWriter: must not be empty",
		},
		{
			distributed(`,"ResultWriter":{"WriterConfig":{"Transformation":"COMPACT","OutputType":"JSONL"}},"ToleratedFailurePercentage":101`),
			"/States/A/ResultWriter/WriterConfig/OutputType: JSONL needs Resource and Parameters: a state's output is JSON|" +
				"/States/A/ToleratedFailurePercentage: must be a number from 0 to 100",
		},
		{pass(`,"Comment":"${X}"`), "/States/A/Comment: no substitution is given for ${X}"},
	} {
		_, err := Parse([]byte(c.definition), nil)
		var bad *DefinitionError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", c.definition, err)
			continue
		}
		var lines []string
		for _, p := range bad.Problems {
			path := p.Path
			if path == "" {
				path = "/"
			}
			lines = append(lines, path+": "+p.Text)
		}
		if got := strings.Join(lines, "|"); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.definition, got, c.want)
		}
	}
}

func TestSubstitutions(t *testing.T) {
	definition := []byte(`{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"${Arn}","End":true,"Comment":"${Why}"}}}`)
	a, err := Parse(definition, map[string]string{"Arn": "arn:aws:lambda:local:0:function:f", "Why": `say "hi"`})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(a.Resources()); got != "[arn:aws:lambda:local:0:function:f]" {
		t.Errorf("resources %s", got)
	}
	b, err := Parse(definition, map[string]string{"Arn": "arn:aws:lambda:local:0:function:g", "Why": ""})
	if err != nil {
		t.Fatal(err)
	}
	if a.SHA256 == b.SHA256 {
		t.Error("other substitutions, the same digest")
	}
	if _, err := Parse(definition, map[string]string{"Arn": "arn:aws:lambda:local:0:function:f", "Why": "", "Typo": ""}); err == nil ||
		!strings.Contains(err.Error(), "there is no ${Typo} to substitute") {
		t.Errorf("a substitution that is not used: %v", err)
	}
}

// FuzzParse: no definition makes the loader panic, and what it accepts it accepts again.
func FuzzParse(f *testing.F) {
	f.Add(everything)
	f.Add(pass(`,"Parameters":{"a.$":"States.Format('{}', $.x)"}`))
	f.Add(distributed(`,"ItemBatcher":{"MaxItemsPerBatch":2}`))
	f.Fuzz(func(t *testing.T, definition string) {
		a, err := Parse([]byte(definition), nil)
		if err != nil {
			return
		}
		b, err := Parse([]byte(definition), nil)
		if err != nil || a.SHA256 != b.SHA256 {
			t.Errorf("parsed again: %v", err)
		}
	})
}
