package discovery

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"tidegate/internal/upstream"
)

// listWatch asks the API server for the objects, and tells each failure. The informer hides some of them: it retries
// a refused connection without a word. After a success it notifies, so that the end of the failure is known.
func (o *objects) listWatch(from dynamic.ResourceInterface, notify func(),
	tell func([]upstream.Target, error)) cache.ListerWatcher {
	outcome := func(ctx context.Context, err error) {
		switch {
		case err == nil:
			notify()
		case ctx.Err() == nil:
			tell(nil, err)
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = o.selector
			list, err := from.List(ctx, options)
			outcome(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.LabelSelector = o.selector
			events, err := from.Watch(ctx, options)
			if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else the informer asks for a list instead
				outcome(ctx, err)
			}
			return events, err
		},
	}
}
