from cloakwork.budget import Cost


def naive(event):
    k = event.kind
    if k == "composed":
        t = Cost(epsilon=0.0)
        for e in event.events:
            t = t + naive(e)
        return t
    if k == "repeated":
        c = naive(event.event)
        return Cost(epsilon=c.epsilon * event.times, delta=c.delta * event.times)
    if k == "discrete-laplace":
        return Cost(epsilon=event.sensitivity / event.scale)
    if k == "epsilon-delta":
        return Cost(epsilon=event.epsilon, delta=event.delta)
    return Cost(epsilon=float("inf"))


def cost(event, delta):
    return naive(event)
