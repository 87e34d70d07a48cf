// The webhook of Knative Serving as a filter: a JSON line {"kind", "object", "old"} in, {"error", "spec"} out.
// tests/suites/knative.py builds it inside knative.dev/serving; tests/serve/webhook.json holds what it said.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	"knative.dev/pkg/apis"
	v1 "knative.dev/serving/pkg/apis/serving/v1"
)

type object interface {
	apis.Defaultable
	apis.Validatable
}

func decode(kind string, data []byte) object {
	var out object
	switch kind {
	case "Service":
		out = &v1.Service{}
	case "Configuration":
		out = &v1.Configuration{}
	case "Route":
		out = &v1.Route{}
	}
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var line struct {
			Kind   string
			Object json.RawMessage
			Old    json.RawMessage
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			panic(err)
		}
		ctx := apis.WithinCreate(context.Background())
		if len(line.Old) > 0 && string(line.Old) != "null" {
			ctx = apis.WithinUpdate(context.Background(), decode(line.Kind, line.Old))
		}
		found := decode(line.Kind, line.Object)
		found.SetDefaults(ctx)
		message := ""
		if err := found.Validate(ctx).Filter(apis.ErrorLevel); err != nil {
			message = err.Error()
		}
		data, _ := json.Marshal(found)
		var whole struct{ Spec json.RawMessage }
		_ = json.Unmarshal(data, &whole)
		_ = out.Encode(map[string]any{"error": message, "spec": whole.Spec})
	}
}
