"""What several processes, and several threads of one, share: the cohort dealt to them and sums that know no order."""
