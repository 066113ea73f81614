; What a helper does while it looks for loops, and what the thread does that leads: see threads.py.

declare i32 @sched_yield()
declare i32 @usleep(i32)

define void @serve(ptr %slot, i64 %number) {
entry:
  %up = cmpxchg ptr %slot, i64 $asleep, i64 0 acq_rel acquire
  %asides = getelementptr i64, ptr %slot, i64 1
  br label %look
look:
  %turn = phi i64 [ 0, %entry ], [ %turns, %idle ], [ 0, %work ]
  %state = load atomic i64, ptr %slot acquire, align 8
  %called = icmp ugt i64 %state, $asleep
  br i1 %called, label %begin, label %none
begin:
  %taken = cmpxchg ptr %slot, i64 %state, i64 1 acq_rel acquire
  %mine = extractvalue { i64, i1 } %taken, 1
  br i1 %mine, label %work, label %idle
work:
  %job = inttoptr i64 %state to ptr
  %function = load ptr, ptr %job
  call void %function(ptr %job, i64 %number)
  store atomic i64 0, ptr %slot release, align 8
  %done = getelementptr i64, ptr %job, i64 1
  %before = atomicrmw add ptr %done, i64 1 release
  br label %look
none:
  %aside = load atomic i64, ptr %asides monotonic, align 8
  %asked = icmp ne i64 %aside, 0
  %most = select i1 %asked, i64 0, i64 $turns
  %patient = icmp ult i64 %turn, %most
  br i1 %patient, label %idle, label %tired
tired:
  %left = cmpxchg ptr %slot, i64 %state, i64 $asleep acq_rel acquire
  %asleep = extractvalue { i64, i1 } %left, 1
  br i1 %asleep, label %end, label %idle
idle:
  %turns = add i64 %turn, 1
  %others = call i32 @sched_yield()
  br label %look
end:
  ret void
}

define void @lead(ptr %slots, i64 %helpers, ptr %job) {
entry:
  %address = ptrtoint ptr %job to i64
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %slot ], [ %next, %ask ]
  %asked = phi i64 [ 0, %entry ], [ %asked, %slot ], [ %more, %ask ]
  %some = icmp slt i64 %i, %helpers
  br i1 %some, label %slot, label %own
slot:
  %next = add i64 %i, 1
  %at = mul i64 %i, $words
  %place = getelementptr i64, ptr %slots, i64 %at
  %state = load atomic i64, ptr %place acquire, align 8
  %other = and i64 %state, $other
  %free = icmp eq i64 %other, 0
  br i1 %free, label %ask, label %look
ask:
  %asking = cmpxchg ptr %place, i64 %state, i64 %address acq_rel acquire
  %told = extractvalue { i64, i1 } %asking, 1
  %one = zext i1 %told to i64
  %more = add i64 %asked, %one
  br label %look
own:
  %function = load ptr, ptr %job
  call void %function(ptr %job, i64 0)
  br label %back
back:
  %j = phi i64 [ 0, %own ], [ %after, %take ]
  %begun = phi i64 [ %asked, %own ], [ %fewer, %take ]
  %left = icmp slt i64 %j, %helpers
  br i1 %left, label %take, label %wait
take:
  %after = add i64 %j, 1
  %where = mul i64 %j, $words
  %its = getelementptr i64, ptr %slots, i64 %where
  %taking = cmpxchg ptr %its, i64 %address, i64 $asleep acq_rel acquire
  %unbegun = extractvalue { i64, i1 } %taking, 1
  %less = zext i1 %unbegun to i64
  %fewer = sub i64 %begun, %less
  br label %back
wait:
  %turn = phi i64 [ 0, %back ], [ %turns, %soon ], [ %turns, %later ]
  %dones = getelementptr i64, ptr %job, i64 1
  %done = load atomic i64, ptr %dones acquire, align 8
  %all = icmp eq i64 %done, %begun
  br i1 %all, label %end, label %again
again:
  %turns = add i64 %turn, 1
  %patient = icmp ult i64 %turn, $turns
  br i1 %patient, label %soon, label %later
soon:
  %others = call i32 @sched_yield()
  br label %wait
later:
  %slept = call i32 @usleep(i32 $pause)
  br label %wait
end:
  ret void
}
