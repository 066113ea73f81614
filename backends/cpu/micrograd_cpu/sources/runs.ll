; The runs of a program of scalars, in order. Each has the number of its loop, its length, the place of its results, and
; of three operands the place and the step; places are those of numbers in `values`.
@loops = internal constant [$count x ptr] [ $loops ]

define void @run(ptr %values, ptr %runs, i64 %count) nounwind {
entry:
  %last = getelementptr [9 x i64], ptr %runs, i64 %count
  br label %head

head:
  %run = phi ptr [ %runs, %entry ], [ %next, %body ]
  %more = icmp ult ptr %run, %last
  br i1 %more, label %body, label %done

body:
  %next = getelementptr [9 x i64], ptr %run, i64 1
  %a1 = getelementptr i64, ptr %run, i64 1
  %a2 = getelementptr i64, ptr %run, i64 2
  %a3 = getelementptr i64, ptr %run, i64 3
  %a4 = getelementptr i64, ptr %run, i64 4
  %a5 = getelementptr i64, ptr %run, i64 5
  %a6 = getelementptr i64, ptr %run, i64 6
  %a7 = getelementptr i64, ptr %run, i64 7
  %a8 = getelementptr i64, ptr %run, i64 8
  %which = load i64, ptr %run
  %n = load i64, ptr %a1
  %out = load i64, ptr %a2
  %x = load i64, ptr %a3
  %xs = load i64, ptr %a4
  %y = load i64, ptr %a5
  %ys = load i64, ptr %a6
  %z = load i64, ptr %a7
  %zs = load i64, ptr %a8
  %at = getelementptr ptr, ptr @loops, i64 %which
  %loop = load ptr, ptr %at
  %out.at = getelementptr double, ptr %values, i64 %out
  %x.at = getelementptr double, ptr %values, i64 %x
  %y.at = getelementptr double, ptr %values, i64 %y
  %z.at = getelementptr double, ptr %values, i64 %z
  call void %loop(i64 %n, ptr %out.at, ptr %x.at, i64 %xs, ptr %y.at, i64 %ys, ptr %z.at, i64 %zs)
  br label %head

done:
  ret void
}
